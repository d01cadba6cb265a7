"""StableHLO as portable bytecode, which jaxlib's bindings decode. Bytes are damaged, or made anew from a damaged text."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from harness.target import Target
from inputs.stablehlo_text import CORPUS, changed, check

from xlac.frontends.stablehlo.bytecode import is_bytecode

LONGEST = 1 << 14


def run(data: bytes) -> None:
    if is_bytecode(data):  # else it is text, whose target is another
        check(data)


def seeds() -> Iterator[bytes]:
    files = sorted(CORPUS.glob("*.mlirbc"), key=lambda file: (file.stat().st_size, file.name))
    yield from (file.read_bytes() for file in files if file.stat().st_size <= LONGEST)


def mutate(data: bytes, random: Random) -> bytes | None:
    """The program with something else in it that MLIR's own verifier lets pass."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import chlo, stablehlo

    with ir.Context() as context:
        chlo.register_dialect(context)
        stablehlo.register_dialect(context)
        try:
            text = stablehlo.deserialize_portable_artifact(context, data).operation.get_asm(enable_debug_info=False)
            module = ir.Module.parse(changed(text, random))
            made: bytes = stablehlo.serialize_portable_artifact_str(str(module), stablehlo.get_current_version())
        except Exception:  # the bindings raise what they like
            return None
    return made


TARGET = Target(run, seeds, mutate, longest=LONGEST)
