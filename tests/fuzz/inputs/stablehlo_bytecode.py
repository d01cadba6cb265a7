"""StableHLO as portable bytecode, which jaxlib's bindings decode. Bytes are damaged, or made anew
from a damaged text.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

from harness.target import Target
from inputs.stablehlo_text import CORPUS, changed, check

from xlac.frontends.stablehlo.bytecode.read import Decoder, is_bytecode, using
from xlac_sdk.source import SourceError

LONGEST = 1 << 14


@cache
def decoder() -> Decoder:
    """One for all inputs: starting it takes longer than most inputs do."""
    return Decoder()


def run(data: bytes) -> None:
    if is_bytecode(data):  # else it is text, whose target is another
        with using(decoder()):
            check(data)


def seeds() -> Iterator[bytes]:
    files = sorted(CORPUS.glob("*.mlirbc"), key=lambda file: (file.stat().st_size, file.name))
    yield from (file.read_bytes() for file in files if file.stat().st_size <= LONGEST)


def mutate(data: bytes, random: Random) -> bytes | None:
    """The program with something else in it that MLIR's own verifier lets pass."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import chlo, func, stablehlo

    try:
        text = changed(decoder().text_of(data, Path("seed")), random)
    except SourceError:
        return None
    with ir.Context() as context:
        chlo.register_dialect(context)
        stablehlo.register_dialect(context)
        assert func
        context.attach_diagnostic_handler(lambda diagnostic: True)
        try:
            made: bytes = stablehlo.serialize_portable_artifact_str(
                str(ir.Module.parse(text)), stablehlo.get_current_version()
            )
        except Exception:  # the bindings raise what they like
            return None
    return made


TARGET = Target(run, seeds, mutate, longest=LONGEST, needs=("jaxlib",))
