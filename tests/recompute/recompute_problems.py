"""Problems that look like steps of training: chains, blocks with skips, encoders and decoders, and
graphs drawn at random.
"""

from __future__ import annotations

from random import Random

from xlac.recompute.problem import Problem, Task, usage

HALF = 0.5  # of what a problem takes beyond its largest task: the limit that is tried


class Drawing:
    """A problem being written: values of random sizes, each by one task."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.tasks: list[Task] = []
        self.nbytes: list[int] = []

    def value(self, *reads: int, size: int = 0) -> int:
        """A task that reads some values and writes one."""
        self.nbytes.append(size or 64 * self.random.randint(1, 32))
        cost = float(self.random.randint(10, 100))
        self.tasks.append(Task(cost, tuple(dict.fromkeys(reads)), (len(self.nbytes) - 1,)))
        return len(self.nbytes) - 1

    def problem(self) -> Problem:
        return Problem(tuple(self.tasks), len(self.tasks), tuple(self.nbytes))


def learning(seed: int, layers: int, skips: bool = False, across: bool = False) -> Problem:
    """Forwards through layers, then backwards: each gradient reads the one before and what the
    layer read. With `skips` every other layer adds what came two before; with `across` the second
    half reads the first half, as decoders do.
    """
    drawing = Drawing(seed)
    values = [drawing.value()]
    skip: dict[int, int] = {}
    for layer in range(1, layers):
        reads = [values[-1]]
        if skips and layer % 2 == 0:
            skip[layer] = layer - 2
        if across and layer > layers // 2:
            skip[layer] = layers - 1 - layer
        if layer in skip:
            reads.append(values[skip[layer]])
        values.append(drawing.value(*reads))
    gradients = {layers - 1: drawing.value(values[-1], size=64)}
    waiting: dict[int, list[int]] = {}
    for layer in range(layers - 1, 0, -1):
        above = gradients.pop(layer)
        drawing.value(above, values[layer - 1], size=64)  # of weights, kept elsewhere
        reads = [above, values[layer - 1], *waiting.pop(layer - 1, ())]
        if layer in skip:
            waiting.setdefault(skip[layer], []).append(above)
        gradients[layer - 1] = drawing.value(*reads, size=drawing.nbytes[values[layer - 1]])
    return drawing.problem()


def layered(seed: int, count: int) -> Problem:
    """A graph drawn at random: each value reads one to three of the eight before it, sometimes one
    of long ago.
    """
    drawing = Drawing(seed)
    values = [drawing.value(), drawing.value()]
    while len(values) < count:
        recent = values[-8:]
        reads = drawing.random.sample(recent, min(len(recent), drawing.random.randint(1, 3)))
        if drawing.random.random() < 0.4:
            reads.append(drawing.random.choice(values))
        values.append(drawing.value(*sorted(reads)))
    return drawing.problem()


def problems() -> dict[str, Problem]:
    """Twenty of 20 to 60 tasks, by name."""
    found: dict[str, Problem] = {}
    for n, layers in enumerate((8, 12, 16, 19, 20)):
        found[f"chain {layers}"] = learning(n, layers)
    for n, layers in enumerate((9, 13, 17, 19, 20)):
        found[f"skips {layers}"] = learning(10 + n, layers, skips=True)
    for n, layers in enumerate((8, 12, 16, 19, 20)):
        found[f"across {layers}"] = learning(20 + n, layers, across=True)
    for n, count in enumerate((20, 24, 28, 32, 22)):
        found[f"layered {count}"] = layered(30 + n, count)
    return found


def limited(problem: Problem, share: float) -> int:
    """A limit: the largest task's need, and a share of what the whole order takes beyond."""
    most = max(usage(problem, range(problem.required)))
    least = max(
        sum(problem.nbytes[b] for b in (*task.reads, *task.writes)) for task in problem.tasks
    )
    return int(least + (most - least) * share) // 64 * 64
