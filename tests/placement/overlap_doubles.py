"""Stages without models: devices that do nothing before they must, and stages on the host."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np

from xlac.ir.types import Type
from xlac.placement.stage_models import StageValues
from xlac.placement.timeline import StageFacts
from xlac_sdk.dtypes import Array, DType

SHAPE = (3,)


class HostStage:
    """A stage on the host's processor: the sum of its inputs and its number, for all outputs."""

    def __init__(self, number: int) -> None:
        self.number = number

    def result(self, inputs: Mapping[str, Array]) -> Any:
        """What every output is."""
        return sum(inputs.values(), np.zeros(SHAPE)) + self.number

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """A call."""
        for array in outputs.values():
            array[...] = np.nan
        result = self.result(inputs)
        for array in outputs.values():
            array[...] = result


class LazyStage(HostStage):
    """The same on a device which reads an array when it must, so that one that changes meanwhile
    shows, and whose results are poison before they are waited for.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.calls = 0

    def begin(self) -> LazyCall:
        """A call in parts."""
        assert not self.calls, "the call before has not ended"
        self.calls = 1
        return LazyCall(self)

    def host_memory(self, nbytes: int) -> Array:
        """Memory that is poisoned."""
        return np.full(nbytes, 0xFF, np.uint8)


class LazyCall:
    """A call of a `LazyStage`."""

    def __init__(self, stage: LazyStage) -> None:
        self._stage = stage
        self._sent: dict[str, Array] = {}
        self._outputs: Mapping[str, Array] | None = None
        self._result: Any = None

    def send(self, name: str, array: Array) -> None:
        """Notes an array, which is read later."""
        assert name not in self._sent, "sent twice"
        assert self._outputs is None, "sent after the start"
        assert not np.isnan(array).any(), "sent before it is there"
        self._sent[name] = array

    def start(self, outputs: Mapping[str, Array]) -> None:
        """Poisons the outputs."""
        self._outputs = outputs
        for array in outputs.values():
            array[...] = np.nan

    def wait(self, name: str) -> None:
        """Computes, if that was not done, and gives an output."""
        assert self._outputs is not None, "waited for before the start"
        if self._result is None:
            self._result = self._stage.result(self._sent)
        self._outputs[name][...] = self._result

    def end(self) -> None:
        """Frees the stage."""
        self._stage.calls -= 1


class DrawnStages:
    """Random stages on random targets, with what their order depends on."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        targets = {name: random.random() < 0.6 for name in "abcd"[: random.randint(1, 4)]}
        count = random.randint(1, 7)
        self.inputs = {f"x{n}": n for n in range(random.randint(1, 3))}
        known, number, stages = list(self.inputs.values()), len(self.inputs), []
        self.facts: list[StageFacts] = []
        for _ in range(count):
            reads = random.sample(known, random.randint(1, min(3, len(known))))
            writes = [number + n for n in range(random.randint(1, 2))]
            number += len(writes)
            stages.append(({f"i{v}": v for v in reads}, {f"o{v}": v for v in writes}))
            known += writes
            target = random.choice(list(targets))
            beside = targets[target]
            seconds = random.choice([1e-6, 1e-4, 1e-2])
            self.facts.append(StageFacts(target, seconds, int(not beside), beside))
        read = {v for reads, _ in stages for v in reads.values()}
        made = [v for _, writes in stages for v in writes.values()]
        self.outputs = {f"y{v}": v for v in made if v not in read or random.random() < 0.2}
        passed = {v: Type(DType.F64, SHAPE) for v in made if v not in self.outputs.values()}
        self.values = StageValues(self.inputs, self.outputs, passed, {}, [], stages)
        self.sizes = {v: random.choice([0, 100, 1_000_000]) for v in range(number)}
        kinds = [LazyStage if one.overlapping else HostStage for one in self.facts]
        self.codes = [kind(n) for n, kind in enumerate(kinds)]

    def expected(self, arrays: Mapping[int, Array]) -> dict[int, Any]:
        """All values, one stage after the other."""
        found: dict[int, Any] = dict(arrays)
        for (reads, writes), code in zip(self.values.stages, self.codes, strict=True):
            result = code.result({name: found[v] for name, v in reads.items()})
            found |= dict.fromkeys(writes.values(), result)
        return found

    def arrays(self, seed: int) -> dict[int, Array]:
        """The arrays of a call."""
        generator = np.random.default_rng(seed)
        made = {
            v: generator.integers(1, 99, SHAPE).astype(np.float64) for v in self.inputs.values()
        }
        rest = [v for _, writes in self.values.stages for v in writes.values()]
        return made | {v: np.full(SHAPE, np.nan) for v in rest}
