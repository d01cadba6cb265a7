"""A model with state and weights, and its pickle as another process runs it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
inputs: {x: "f32[4]"}
state: {seen: {type: "f32[4]", next: total}}
weights: {init: {seed: 0}}
graph:
  w: {op: linear, in: "reshape(x, [1, 4])", units: 4}
  total: seen + reshape(w, [4])
outputs: [total]
"""
OPEN = """\
xlac: 1
model: open
dims: {n: {min: 1, max: 9, opt: 2}}
inputs: {x: "f32[n, 3]"}
state: {seen: {type: "f32[n, 3]", next: total}}
graph: {total: seen + x}
outputs: [total]
"""
OTHER = """
import pickle, sys
model = pickle.load(open(sys.argv[1], "rb"))
assert not any(name in sys.modules for name in ("llvmlite", "xlac.driver"))
print(model([1, 2, 3, 4]).tolist(), pickle.loads(pickle.dumps(model))([1, 2, 3, 4]).tolist())
"""


def runs_elsewhere(pickled: bytes, model: Any, file: Path) -> None:
    """Another process, which imports no compiler, gives what two more calls of `model` give, the
    second from a pickle of its own.
    """
    file.write_bytes(pickled)
    wanted = [model([1, 2, 3, 4]).tolist() for _ in range(2)]
    command = [sys.executable, "-c", OTHER, str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.stdout.strip() == " ".join(map(str, wanted)), ran.stderr


def keeps_its_sizes(model: Any) -> None:
    """A copy of a model whose state has two rows takes no call of three, as the model itself."""
    two, three = np.ones((2, 3), np.float32), np.ones((3, 3), np.float32)
    model(two)
    copy = copied(model)
    for one in (model, copy):
        with pytest.raises(SourceError, match="state 'seen' was made with n=2"):
            one(three)
    np.testing.assert_array_equal(copy(two), 2 * two)
    copy.reset()
    np.testing.assert_array_equal(copy(three), three)


def stays_in_a_child(place: Path, release: Callable[[], None]) -> None:
    """A forked process that lets go of a copy leaves the files of its parent's."""
    child = os.fork()
    if not child:
        release()
        os._exit(0)
    os.waitpid(child, 0)
    assert place.is_dir()


def copied(model: Any) -> Any:
    """What a pickle of a model gives in this process."""
    return pickle.loads(pickle.dumps(model))
