"""Loaders that say where they are: a run that goes on makes no batch twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from logistic import LogisticSteps, Told, samples

from xlac.training.loop import checkpoint
from xlac.training.loop.loader_state import LoaderState, NotSerializable
from xlac.training.loop.train import train
from xlac_sdk.dtypes import Array

DATA = samples(50)


class Ended(BaseException):
    """As if the process were killed."""


class Stateful:
    """As torchdata's StatefulDataLoader: an order of its own each epoch, drawn by a generator that
    the state holds.
    """

    batch_size = 16

    def __init__(self, more: Any = None) -> None:
        self._random, self._order = np.random.RandomState(3), np.arange(0)
        self._given, self._over, self._more = 0, True, more
        self.made: list[int] = []  # how far it was at each batch

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        if self._over:
            self._order, self._given, self._over = self._random.permutation(50), 0, False
        while self._given < len(self):
            self.made.append(self._given)
            at = self._order[16 * self._given :][:16]
            self._given += 1
            yield DATA["image"][at], DATA["label"][at]
        self._over = True

    def state_dict(self) -> dict[str, Any]:
        name, key, place, has, gauss = self._random.get_state()
        state = {"generator": (name, key, place, has, gauss), "order": self._order}
        return {**state, "given": self._given, "over": self._over, "more": [self._more, None]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._random.set_state(state["generator"])
        self._order, self._given, self._over = state["order"], state["given"], state["over"]
        assert state["more"] == [self._more, None]


class Ending(LogisticSteps):
    """Ends in the middle of a step."""

    last = 100

    def run_step(self, arrays: Any) -> Any:
        if self.steps_done == self.last:
            raise Ended
        return super().run_step(arrays)


@pytest.mark.parametrize("step", [5, 7, 8])
@pytest.mark.parametrize("every", [1, 3, None])
def test_a_run_goes_on_where_the_loader_was(step: int, every: int | None, tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 3, "checkpoint_every": every}
    whole = LogisticSteps()
    train(whole, Stateful(b"x"), tmp_path / "whole", **options)
    ending = Ending()
    ending.last = step
    with pytest.raises(Ended):
        train(ending, Stateful(b"x"), tmp_path / "run", **options)
    loader, again = Stateful(b"x"), LogisticSteps()
    train(again, loader, tmp_path / "run", resume=True, **options)
    from_step = step // every * every if every else step // 4 * 4
    assert loader.made[0] == from_step % 4 and len(loader.made) == 12 - from_step
    np.testing.assert_array_equal(again.state()["w"], whole.state()["w"])
    ends = [checkpoint.listed(tmp_path / name / "checkpoints")[0] for name in ("run", "whole")]
    assert checkpoint.read(ends[0]).state.keys() == {"w", "v", "step"}


def test_a_state_that_cannot_be_kept_is_said_and_batches_are_made_again(tmp_path: Path) -> None:
    class Fixed(Stateful):
        def __iter__(self) -> Iterator[tuple[Array, Array]]:
            for n in range(4):
                self.made.append(n)
                yield DATA["image"][16 * n :][:16], DATA["label"][16 * n :][:16]

    told, whole = Told(), LogisticSteps()
    train(whole, Fixed({1}), tmp_path / "whole", epochs=2, report=told)
    assert [line for line in told.lines if "note: the loader's state holds a builtins.set" in line]
    ending = Ending()
    ending.last = 7
    with pytest.raises(Ended):
        train(ending, Fixed({1}), tmp_path / "run", epochs=2, checkpoint_every=3)
    loader, again = Fixed({1}), LogisticSteps()
    train(again, loader, tmp_path / "run", epochs=2, checkpoint_every=3, resume=True)
    assert loader.made == [0, 1, 2, 3]
    np.testing.assert_array_equal(again.state()["w"], whole.state()["w"])


def test_states_are_kept_as_they_are() -> None:
    torch = pytest.importorskip("torch")
    state = {
        "a": [1, -(2**70), 2.5, float("inf"), True, None, "text"],
        3: (),
        "b": {"c": b"\0\xff"},
        "n": np.arange(6, dtype=np.uint8).reshape(2, 3),
        "s": np.float32(0.1),
        "t": torch.tensor([1, 2]),
    }
    packed = LoaderState.of(state)
    found = LoaderState(packed.text, packed.arrays).value()
    assert found.keys() == state.keys() and found["a"] == state["a"] and found[3] == ()
    assert found["b"] == state["b"] and type(found["s"]) is np.float32 and found["s"] == state["s"]
    np.testing.assert_array_equal(found["n"], state["n"])
    assert torch.equal(found["t"], state["t"]) and found["t"].dtype == torch.int64
    deep: list[Any] = []
    deep.append(deep)
    for value in (object(), {"x": {1}}, np.array([object()]), deep):
        with pytest.raises(NotSerializable):
            LoaderState.of(value)


@pytest.mark.parametrize(
    "text", ["{}", '{"array": 7}', '{"what": 1}', "[", '{"map": [[1]]}', '{"bytes": "x"}']
)
def test_a_text_that_is_no_state_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        LoaderState(text).value()


def test_torchdata(tmp_path: Path) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    torch = pytest.importorskip("torch")
    rows = torch.utils.data.TensorDataset(*map(torch.from_numpy, DATA.values()))

    def loader() -> Any:
        torch.manual_seed(0)
        return stateful.StatefulDataLoader(rows, batch_size=16, shuffle=True)

    whole, ending, again = LogisticSteps(), Ending(), LogisticSteps()
    train(whole, loader(), tmp_path / "whole", epochs=3, checkpoint_every=1)
    ending.last = 6
    with pytest.raises(Ended):
        train(ending, loader(), tmp_path / "run", epochs=3, checkpoint_every=1)
    train(again, loader(), tmp_path / "run", epochs=3, checkpoint_every=1, resume=True)
    np.testing.assert_array_equal(again.state()["w"], whole.state()["w"])
