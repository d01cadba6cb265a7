"""What a call that is stopped leaves of a model's state: what it was, or nothing that anybody can
take for a state.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac

LATE = """
xlac: 1
model: counted_after
inputs: {n: "i32[]"}
state: {calls: {type: "i32[]", next: calls + 1 + loop.steps * 0}}
graph:
  loop:
    while: (steps >= 0) & (n > 0)
    carry: {steps: {init: 0, type: "i32[]"}}
    next: {steps: n - steps}
outputs: {k: loop.steps, before: calls}
"""  # changed when all the work is done
EARLY = """
xlac: 1
model: counted_before
inputs: {n: "i32[]", x: "f32[1024]"}
state: {total: {type: "f32[1024]", next: total + x}}
graph:
  more: total + x
  loop:
    while: (value < 2) & (n > 0)
    carry: {value: "0 * reduce_max(more)"}
    next: {value: value * 0.5}
outputs: {k: loop.value, after: reduce_max(more)}
"""  # may be changed before the endless part


def compiled(text: str, folder: Path, **options: Any) -> Any:
    file = folder / "model.yaml"
    file.write_text(text)
    return xlac.compile(file, **options)


@pytest.mark.parametrize("target", ["cpu", "c", "reference"])
def test_state_is_as_before_the_call(target: str, tmp_path: Path) -> None:
    made = compiled(LATE, tmp_path, target=target)
    none, some = np.zeros((), "i4"), np.ones((), "i4")
    assert made(none)["before"] == 0
    for _ in range(3):
        with pytest.raises(TimeoutError), xlac.timeout(0.02):
            made(some)
    assert made(none)["before"] == 1 and made(none)["before"] == 2


def refuses(made: Any, *given: Any) -> bool:
    try:
        made(*given)
    except xlac.SourceError as error:
        assert "XL6041" in str(error)
        return True
    return False


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_half_changed_state_is_refused(target: str, tmp_path: Path) -> None:
    made = compiled(EARLY, tmp_path, target=target)
    none, some, x = np.zeros((), "i4"), np.ones((), "i4"), np.ones(1024, "f4")
    made(none, x)
    seconds, refused = 0.02, False
    while not refused:  # a busy machine may not come to the state in so little
        with pytest.raises(TimeoutError), xlac.timeout(seconds):
            made(some, x)
        refused, seconds = refuses(made, none, x), 2 * seconds
        assert refused or seconds < 60
    assert refuses(made, none, x)
    made.reset()
    assert made(none, x)["after"] == 1 and made(none, x)["after"] == 2
