"""PyTorch's own samples of its operators (OpInfo), captured as graphs of ATen operations and run
three ways.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch._functorch.aot_autograd import aot_export_module
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from xlac.frontends.torch.decompositions import decompositions
from xlac.frontends.torch.tensors import array_of, tensor_of
from xlac.integrations.torch.program import Output, PassedArgument, ViewOfMemory
from xlac.integrations.torch.subgraph import Options, Subgraph
from xlac.ir.graph import Graph
from xlac.ir.interpret import interpret

DTYPES = (torch.float32, torch.int64, torch.bool, torch.bfloat16)
WIDE = {
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
BY_NAME = {
    f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db
}


def is_complex(op: Any) -> bool:
    """Whether an operator takes complex numbers on the CPU."""
    return torch.complex64 in op.supported_dtypes("cpu")


@dataclass(frozen=True)
class Case:
    """A function of tensors, and tensors for it."""

    function: Any
    tensors: list[torch.Tensor]

    def eager(self) -> list[torch.Tensor]:
        found: list[torch.Tensor] = self.function(*[t.clone() for t in self.tensors])
        return found

    def exact(self) -> list[torch.Tensor]:
        """What eager gives for the same numbers as float64 or complex128."""
        wide = [t.to(WIDE.get(t.dtype, t.dtype)) for t in self.tensors]
        return Case(self.function, wide).eager()

    def graph(self) -> GraphModule:
        """Functional ATen operations, as AOTAutograd gives them to a backend."""
        # constants are made while the function runs
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        fakes = tuple(mode.from_tensor(t) for t in self.tensors)
        with torch._functorch.config.patch(unlift_effect_tokens=True):  # as the backend does
            module, _ = aot_export_module(
                _Module(self.function), fakes, trace_joint=False, decompositions=decompositions()
            )
        (last,) = (n for n in module.graph.nodes if n.op == "output")
        # new values of mutated arguments come first
        last.args = (last.args[0][-len(self.eager()) :],)
        module.graph.eliminate_dead_code()
        return module


class _Module(torch.nn.Module):
    """A function where PyTorch wants a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def cases(name: str, dtype: torch.dtype, limit: int) -> Iterator[Case]:
    """The first samples of an operator."""
    op = BY_NAME[name]
    if dtype not in op.supported_dtypes("cpu"):
        return
    torch.manual_seed(0)
    for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), limit):
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))

        def function(
            *tensors: torch.Tensor, leaves: list[Any] = leaves, spec: Any = spec
        ) -> list[torch.Tensor]:
            given = iter(tensors)
            first, args, named = pytree.tree_unflatten(
                [next(given) if isinstance(x, torch.Tensor) else x for x in leaves], spec
            )
            return [
                t
                for t in pytree.tree_leaves(op.op(first, *args, **named))
                if isinstance(t, torch.Tensor)
            ]

        yield Case(function, [x.detach().clone() for x in leaves if isinstance(x, torch.Tensor)])


def imported(case: Case, target: str = "cpu") -> Subgraph:
    return Subgraph(case.graph(), Options(target=target, fallback=False, threads=1))


def interpreted(subgraph: Subgraph, tensors: list[torch.Tensor]) -> list[Any]:
    """The results by xlac's interpreter, which needs no compiler."""
    outputs, results = subgraph.results()
    given = {
        i.name: array_of(
            tensors[i.position] if i.perm is None else tensors[i.position].permute(i.perm)
        )
        for i in subgraph.inputs
    }
    params = list(subgraph.params)
    if subgraph.importer.random.seed is not None:
        params.append(subgraph.importer.random.seed)
        given["seed"] = np.arange(3, dtype=np.uint64)
    values = interpret(Graph("sample", tuple(params), outputs), given)
    return [_result(result, values, tensors) for result in results]


def _result(result: Any, values: Mapping[str, Any], tensors: list[torch.Tensor]) -> Any:
    """A result as the program gives it; views are on memory of their own."""
    match result:
        case ViewOfMemory(base, _, geometry):
            return geometry.of(_result(base, values, tensors))
        case Output(name, back=back, complex=complex):
            array = values[name]
            tensor = tensor_of(np.ascontiguousarray(array).reshape(array.shape).copy())
            tensor = torch.complex(tensor[..., 0], tensor[..., 1]) if complex else tensor
            return tensor if back is None else tensor.permute(back)
        case PassedArgument(position):
            return tensors[position]
    return result
