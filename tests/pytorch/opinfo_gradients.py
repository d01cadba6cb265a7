"""Gradients of imported operators beside PyTorch's autograd: PyTorch's own samples (OpInfo) in f64,
exported as `from_torch` does, differentiated by us and interpreted.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from xlac.autodiff.gradient import linearize
from xlac.frontends.torch.exported import imported
from xlac.frontends.torch.tensors import array_of
from xlac.integrations.torch import exporting
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ops import build
from xlac.ops.tensor.leaf import param

DIFFERENTIABLE = {
    f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op
    for op in op_db
    if op.supports_autograd and torch.float64 in op.supported_dtypes("cpu")
}


@dataclass(frozen=True)
class GradientCase:
    """A function of tensors, tensors for it, and which of them it is differentiated by."""

    function: Any
    tensors: list[torch.Tensor]
    wrt: list[int]

    def outputs(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """The results that have a gradient."""
        return [t for t in self.function(*tensors) if t.dtype == torch.float64 and t.requires_grad]

    def expected(self) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor | None]]:
        """PyTorch's results, random cotangents of them, and the gradients."""
        leaves = [t.clone().requires_grad_(n in self.wrt) for n, t in enumerate(self.tensors)]
        found = self.outputs(leaves)
        cotangents = [torch.randn_like(t) for t in found]
        wanted = (
            torch.autograd.grad(found, [leaves[n] for n in self.wrt], cotangents, allow_unused=True)
            if found
            else ()
        )
        return [t.detach() for t in found], cotangents, list(wanted)


class Function(torch.nn.Module):
    """A function where torch.export wants a module; gives what has a gradient."""

    def __init__(self, case: GradientCase) -> None:
        super().__init__()
        self.case = case

    def forward(self, *tensors: torch.Tensor) -> Any:
        return tuple(self.case.outputs(list(tensors)))


def cases(name: str, limit: int) -> Iterator[GradientCase]:
    """The first samples of an operator."""
    op = DIFFERENTIABLE[name]
    torch.manual_seed(0)
    for sample in itertools.islice(
        op.sample_inputs("cpu", torch.float64, requires_grad=True), limit
    ):
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        after = sample.output_process_fn_grad

        def function(
            *tensors: torch.Tensor, leaves: list[Any] = leaves, spec: Any = spec, after: Any = after
        ) -> list[torch.Tensor]:
            given = iter(tensors)
            first, args, named = pytree.tree_unflatten(
                [next(given) if isinstance(x, torch.Tensor) else x for x in leaves], spec
            )
            made = after(op.op(first, *args, **named))
            return [t for t in pytree.tree_leaves(made) if isinstance(t, torch.Tensor)]

        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        wrt = [n for n, t in enumerate(tensors) if t.requires_grad and t.dtype == torch.float64]
        if wrt:
            yield GradientCase(function, [t.detach().clone() for t in tensors], wrt)


def check(case: GradientCase) -> None:
    """Our gradients are PyTorch's: raises AssertionError where they differ, or what stopped it."""
    values, cotangents, wanted = case.expected()
    if not values:
        return
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        leaves = tuple(t.clone().requires_grad_(n in case.wrt) for n, t in enumerate(case.tensors))
        program = exporting.exported(Function(case), leaves, None, False)
        found = imported(program)
    if found.seeded:  # what is drawn is not PyTorch's
        return
    graph = found.model.graph
    inputs = {param(n).name: n for n in graph.inputs}
    sources = [inputs[found.inputs[n]] for n in case.wrt]
    results = [graph.outputs[str(name)] for name in found.outputs]
    linear = linearize(results, sources)
    given = [build.param(f"ct{n}", r.type.dtype, r.shape) for n, r in enumerate(results)]
    gradients = linear.transposed(given)
    arrays = dict(zip(found.inputs, map(array_of, case.tensors), strict=True))
    arrays |= {param(p).name: array_of(ct) for p, ct in zip(given, cotangents, strict=True)}
    compare(
        graph, [*linear.values, *gradients], [*values, *wanted], given, arrays, found.model.weights
    )


def compare(
    graph: Graph,
    nodes: list[Node],
    wanted: list[torch.Tensor | None],
    given: list[Node],
    arrays: dict[str, Any],
    weights: Any,
) -> None:
    """The values of nodes beside PyTorch's; None stands for zeros."""
    outputs = {f"y{n}": node for n, node in enumerate(nodes)}
    found = interpret(Graph("gradients", (*graph.inputs, *given), outputs), arrays, weights)
    for name, theirs in zip(outputs, wanted, strict=True):
        ours = np.asarray(found[name])
        expected = (
            np.zeros_like(ours)
            if theirs is None
            else array_of(theirs + torch.zeros(theirs.shape, dtype=theirs.dtype))
        )
        scale = float(np.nanmax(np.abs(expected), initial=1e-3, where=np.isfinite(expected)))
        np.testing.assert_allclose(ours, expected, 1e-7, 1e-8 * scale, err_msg=name)
