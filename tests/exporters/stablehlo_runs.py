"""Exported StableHLO modules run by XLA, and read again by our importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlac.debug.conformance import OperationCase, bound_of, difference
from xlac.exporters.stablehlo import text
from xlac.frontends.loader import load
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.model import Model
from xlac_sdk.dtypes import DType

jax = pytest.importorskip("jax")
F32, I32 = Type(DType.F32), Type(DType.I32)


def run(module: str, arrays: list[Array]) -> list[Array]:
    """The results of a module that XLA compiles for this CPU, refined by JAX for the arrays' sizes
    where some are open.
    """
    from jax._src import xla_bridge
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax, xla_client
    from jax._src.lib.mlir import ir

    with jax.enable_x64(True):
        backend = xla_bridge.get_backend("cpu")
        device = backend.local_devices()[0]
        context = mlir.make_ir_context()
        with context, ir.Location.unknown(context):
            parsed = ir.Module.parse(module)
            if "?" in str(parsed.body.operations[0].attributes["function_type"]):
                code = mlir.module_to_bytecode(called(ir, parsed, arrays))
                parsed = ir.Module.parse(
                    _jax.mlir.refine_polymorphic_shapes(
                        code, enable_shape_assertions=True, validate_static_shapes=True
                    )
                )
            options = xla_client.CompileOptions()
            made = backend.compile_and_load(parsed, xla_client.DeviceList((device,)), options, [])
        given = [jax.device_put(a, device) for a in arrays]
        return [
            np.asarray(r[0])
            for r in made.execute_sharded(given).disassemble_into_single_device_arrays()
        ]


def called(ir: Any, module: Any, arrays: Sequence[Array]) -> Any:
    """The module with a new main function, which calls the old one with arguments of known sizes,
    as JAX calls exported functions.
    """
    (main,) = module.body.operations
    main.attributes["sym_name"] = ir.StringAttr.get("model")
    main.attributes["sym_visibility"] = ir.StringAttr.get("private")
    type = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    takes, gives = [*map(str, type.inputs)], [*map(str, type.results)]
    inputs = [ir.RankedTensorType(t) for t in type.inputs]
    known = [
        str(ir.RankedTensorType.get(a.shape, t.element_type))
        for a, t in zip(arrays, inputs, strict=True)
    ]
    head = ", ".join(f"%a{n}: {t}" for n, t in enumerate(known))
    converted = [
        f"%b{n} = stablehlo.convert %a{n} : ({have}) -> {want}"
        for n, (have, want) in enumerate(zip(known, takes, strict=True))
    ]
    ends, values = ", ".join(gives), ", ".join(f"%r#{n}" for n in range(len(gives)))
    given = ", ".join(f"%b{n}" for n in range(len(takes)))
    wrapped = ir.Module.parse(
        "\n".join(
            [
                f"module {{ func.func private @model({', '.join(takes)}) -> ({ends})",
                f"func.func public @main({head}) -> ({ends}) {{",
                *converted,
                f"%r:{len(gives)} = call @model({given}) : ({', '.join(takes)}) -> ({ends})",
                f"return {values} : {ends} }} }}",
            ]
        )
    )
    module.body.append(wrapped.body.operations[1])
    return module


def flushed(case: OperationCase) -> OperationCase:
    """The case without denormals, which XLA's CPU client takes for 0."""
    least = {DType.F32: np.finfo(np.float32).tiny, DType.BF16: np.finfo(np.float32).tiny}
    inputs = []
    for array in case.inputs:
        tiny = least.get(DType.of(array.dtype), 0.0)
        small = np.abs(array.astype(np.float64)) < tiny
        inputs.append(np.where(small, np.zeros_like(array), array) if small.any() else array)
    if all(a is b for a, b in zip(inputs, case.inputs, strict=True)):
        return case
    with np.errstate(all="ignore"):
        found = case.op.evaluate(*inputs)
    expected = tuple(map(np.asarray, found if isinstance(found, tuple) else (found,)))
    return replace(
        case, inputs=tuple(inputs), expected=expected, bound=bound_of(case.op, tuple(inputs))
    )


def read_back(
    module: str,
    model: Model,
    given: Mapping[str, Array],
    folder: Path,
    bounds: Sequence[Array | None] = (),
) -> None:
    """What our importer makes of a module computes what the model does; `bounds` of the results are
    those of `difference`.
    """
    (folder / "m.mlir").write_text(module)
    found = load(folder / "m.mlir")
    arrays = [given[n.op.name] for n in model.graph.inputs]  # type: ignore[attr-defined]
    names = [n.op.name for n in found.graph.inputs]  # type: ignore[attr-defined]
    with np.errstate(all="ignore"):
        results = interpret(found.graph, dict(zip(names, arrays, strict=True)), found.weights)
        wanted = interpret(model.graph, given, model.weights)
    every = bounds or [None] * len(wanted)
    for got, want, bound in zip(results.values(), wanted.values(), every, strict=True):
        assert not (wrong := difference(np.asarray(got), np.asarray(want), bound)), wrong


def inputs_of(model: Model) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    found = {}
    for node in model.graph.inputs:
        shape, dtype = tuple(int(str(s)) for s in node.shape), node.type.dtype
        kind = rng.integers(0, 2, shape) if not dtype.is_float else rng.normal(0, 1, shape)
        found[node.op.name] = np.asarray(kind).astype(dtype.numpy)  # type: ignore[attr-defined]
    return found


def agree(
    model: Model, given: Mapping[str, Array], tolerance: float = 2e-5, module: str = ""
) -> None:
    """The module, that of the model where none is given, computes what the model does."""
    found = run(module or text(model), [given[n.op.name] for n in model.graph.inputs])  # type: ignore[attr-defined]
    wanted = interpret(model.graph, given, model.weights)
    for got, (name, want) in zip(found, wanted.items(), strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        scale = max(1.0, float(np.abs(np.asarray(want, np.float64)).max(initial=0.0)))
        np.testing.assert_allclose(
            got.astype(np.float64) / scale,
            np.asarray(want).astype(np.float64) / scale,
            rtol=0,
            atol=tolerance,
            err_msg=name,
        )


def of(outputs: Mapping[str, Node], *inputs: Node) -> Model:
    return Model(Graph("made", tuple(inputs), dict(outputs)), {})
