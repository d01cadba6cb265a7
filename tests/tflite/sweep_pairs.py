"""Operators of two quantized tensors beside the reference kernels, for all pairs of bytes (of 16
bits for pairs of 256 numbers each), with scales and zero points of many kinds. On some the kernels
abort the process, so they run in one of their own, which goes on after the case. Needs the package
ai-edge-litert: `make test-tflite`.

    python tests/tflite/sweep_pairs.py            all operators; fails where integers differ
    python tests/tflite/sweep_pairs.py ADD i8     those whose names have all of these words
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from record import given
from tflite_case import QUANTIZED, Array, Case, case, q
from tflite_writer import Tensor

from xlac.frontends.loader import load
from xlac.frontends.tflite.multiplier import multiplier
from xlac.ir.interpret import interpret
from xlac_sdk.source import XlacError

SCALES = {
    "equal": (0.0371, 0.0371, 0.0371),
    "halves": (0.0625, 0.03125, 0.125),
    "double": (0.02, 0.04, 0.03),
    "usual": (0.0213, 0.0371, 0.0497),
    "coarse": (0.11, 0.007, 0.9),
    "fine": (0.05, 0.04, 0.0031),
    "apart": (0.00021, 0.31, 0.29),
    "odd": (0.017423, 0.0089127, 0.023518),
}
"""Scales of both operands and the result. Those of 16 bits are 200 times smaller."""

ZEROS = {"none": (0, 0, 0), "low": (-128, -128, -128), "high": (127, 90, 127), "odd": (-17, 33, 5)}
ACTIVATIONS = {"none": 0, "relu": 1, "relu1": 2, "relu6": 3}
ARITHMETIC = ("ADD", "SUB", "MUL", "DIV")
COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
OTHERS = ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD")
FEW = 0.01  # of the pairs of DIV, which may differ by a step: we round a real quotient once
DIVIDING = ("DIV", "FLOOR_DIV", "FLOOR_MOD")


class Pairs(Case):
    """A case whose inputs are all pairs of numbers; a divisor is not its zero point."""

    @property
    def operator(self) -> str:
        """The name of its operator."""
        return self.graph.operators[0][0]

    def defined(self) -> Array:
        """For which pairs the kernels define a result: DIV shifts a quotient by as many bits as x
        is shorter than a word, y is long and the scales say; more than 31 are undefined in C++.
        """
        if self.operator != "DIV":
            return np.ones((256, 256), bool)
        a, b, out = self.graph.tensors
        x, y = (
            array.astype(np.int64) - tensor.zero
            for array, tensor in zip(self.inputs(), (a, b), strict=True)
        )
        x, y = x * np.sign(y), np.abs(y)
        # bits of a word above those of a signed number
        room = 31 - _bits(np.where(x < 0, -x - 1, x))
        exponent = int(multiplier(a.scale / (b.scale * out.scale)).exponent)
        shift = exponent - (_bits(y) - 1) - room
        known: Array = (shift >= -31) & (shift <= 0)
        return known

    def inputs(self) -> list[Array]:
        """A column and a row of numbers."""
        operator, found = self.operator, []
        for number, shape in enumerate(((256, 1), (1, 256))):
            tensor = self.graph.tensors[number]
            low, high = QUANTIZED[tensor.dtype]
            if tensor.dtype == "i16":
                ends = [low, low + 1, -1, 0, 1, high - 1, high]
                drawn = np.random.default_rng(number).integers(low, high, 256 - len(ends))
                values = np.concatenate([ends, drawn])
            else:
                values = np.arange(low, high + 1)
            if number and operator in DIVIDING:
                zero = 0 if operator != "DIV" else tensor.zero
                values = np.where(values == zero, values + 1, values)
            kind = {"i8": np.int8, "u8": np.uint8, "i16": np.int16}[tensor.dtype]
            found.append(values.reshape(shape).astype(kind))
        return found


def _bits(x: Array) -> Array:
    """How many bits numbers have that are not negative."""
    return np.ceil(np.log2(x + 1)).astype(np.int64)


def pairs() -> Iterator[Pairs]:
    """Every case."""
    for dtype, (scaled, scales), (placed, zeros) in product(
        QUANTIZED, SCALES.items(), ZEROS.items()
    ):
        if dtype == "i16" and placed != "none":
            continue  # kernels take no others
        small = 1 / 200 if dtype == "i16" else 1.0
        moved = 128 if dtype == "u8" else 0
        x, y = (
            q(*shape, dtype=dtype, scale=scale * small, zero=zero + moved)
            for shape, scale, zero in zip(((256, 1), (1, 256)), scales, zeros, strict=False)
        )
        out = q(256, 256, dtype=dtype, scale=scales[2] * small, zero=zeros[2] + moved)
        for operator in (*ARITHMETIC, *OTHERS, *COMPARISONS):
            for active, number in ACTIVATIONS.items():
                if active != "none" and operator not in ARITHMETIC:
                    continue
                to = Tensor("bool", (256, 256)) if operator in COMPARISONS else out
                options = {}
                if operator in ARITHMETIC:
                    options = {"table": f"{operator.title()}Options"}
                    options["fused_activation_function"] = number
                    if operator in ("ADD", "SUB"):
                        options["pot_scale_int16"] = False
                name = f"{operator} {dtype} {scaled} {placed} {active}"
                made = case(name, operator, x, y, out=to, **options)
                yield Pairs(made.name, made.graph)


def chosen(words: list[str]) -> list[Pairs]:
    """The cases whose names have all of these words."""
    return [each for each in pairs() if set(words) <= set(each.name.split())]


def work(folder: Path, start: int, words: list[str]) -> None:
    """Writes what the kernels give for the cases from `start` on; nothing where they refuse."""
    for number, each in enumerate(chosen(words)):
        if number < start:
            continue
        (folder / "at").write_text(str(number))
        try:
            np.save(folder / f"{number}.npy", given(each)[0])
        except (RuntimeError, ValueError):
            continue
    (folder / "at").write_text("done")


def by_kernels(folder: Path, count: int, words: list[str]) -> set[int]:
    """Runs the kernels on all cases; the numbers of those on which they end the process."""
    aborted: set[int] = set()
    start = 0
    while start < count:
        command = [sys.executable, __file__, "--work", str(folder), str(start), *words]
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
        at = (folder / "at").read_text()
        if at == "done":
            break
        aborted.add(int(at))
        start = int(at) + 1
    return aborted


def ours(each: Pairs, file: Path) -> Array | None:
    """What we give; None where we refuse it."""
    file.write_bytes(each.file())
    try:
        graph = load(file).graph
    except XlacError:
        return None
    names = [node.op.name for node in graph.inputs]  # type: ignore[attr-defined]
    (found,) = interpret(graph, dict(zip(names, each.inputs(), strict=True))).values()
    return found


def main() -> None:
    """Prints a line for each operator and type, and fails where integers differ."""
    words = sys.argv[1:]
    if words[:1] == ["--work"]:
        work(Path(words[1]), int(words[2]), words[3:])
        return
    cases, wrong = chosen(words), []
    found: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        aborted = by_kernels(folder, len(cases), words)
        for number, each in enumerate(cases):
            count = found.setdefault(" ".join(each.name.split()[:2]), Counter())
            file = folder / f"{number}.npy"
            if not file.exists():
                count["kernels abort" if number in aborted else "kernels refuse"] += 1
                continue
            wanted, made = np.load(file), ours(each, folder / "model.tflite")
            if made is None:
                count["we refuse"] += 1
                wrong.append(f"{each.name}: refused")
                continue
            apart = np.abs(made.astype(np.int64) - wanted.astype(np.int64))[each.defined()]
            far, differ = int(apart.max(initial=0)), float((apart > 0).mean())
            count["equal" if not far else "one step" if far == 1 else "farther"] += 1
            if far > (each.operator == "DIV") or differ > FEW:
                wrong.append(f"{each.name}: at most {far} apart, {differ:.4%} differ")
    for operator, count in found.items():
        print(f"{operator:24}", ", ".join(f"{n} {what}" for what, n in sorted(count.items())))
    assert not wrong, "they differ:\n" + "\n".join(wrong)


if __name__ == "__main__":
    main()
