"""The work of every stage of compiling is near linear in the size of a model. Lines of ours that
are run are counted, not seconds.

`bench/scaling.py` has the shapes of models and measures seconds, those of NumPy's and LLVM's too.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from scaling import SHAPES, stages

SMALL, LARGE = 40, 160
# of a function's work at the large size that may be more than that at the small one, times the
# sizes' ratio
SHARE = 0.45
FEW = 3000  # lines of a function that do not matter


def lines(run: Callable[[], Any]) -> Counter[str]:
    """How many lines of each function are run, each turn of a comprehension counted."""
    found: Counter[CodeType] = Counter()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        found[frame.f_code] += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return Counter(
        {
            f"{Path(code.co_filename).name}:{code.co_firstlineno} {code.co_name}": count
            for code, count in found.items()
        }
    )


def quadratic(before: Counter[str], after: Counter[str]) -> dict[str, tuple[int, int]]:
    """The functions whose work grew by more than the size did."""
    ratio = LARGE // SMALL
    return {
        name: (before[name], count)
        for name, count in after.items()
        if count - ratio * before[name] > FEW + SHARE * count
    }


@pytest.mark.sampled(16)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_function_is_quadratic(shape: str) -> None:
    counts = []
    for size in (8, SMALL, LARGE):  # the first fills what is kept between compilations
        counts.append(
            sum((lines(run) for _, run in stages(lambda size=size: SHAPES[shape](size))), Counter())
        )  # type: ignore[misc]
    assert not quadratic(*counts[1:])


def test_what_is_quadratic_is_found() -> None:
    def made(size: int) -> Callable[[], Any]:
        return lambda: [{n: n for n in range(size)} for _ in range(size)]

    assert quadratic(lines(made(SMALL)), lines(made(LARGE)))
    assert not quadratic(
        lines(lambda: list(map(str, range(SMALL)))), lines(lambda: [str(n) for n in range(LARGE)])
    )
