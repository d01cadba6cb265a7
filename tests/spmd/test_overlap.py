"""What hides the messages of a program: the order of its steps around collectives."""

from __future__ import annotations

from dataclasses import replace

from shipped import FOLDER

import xlac
from xlac.driver import specialized
from xlac.frontends.loader import load
from xlac.model import MeshSection, SaidSharding
from xlac.ranks.program import RankProgram, rank_program
from xlac.recompute.overlap import overlapped
from xlac.spmd.mesh import Mesh
from xlac_sdk.host.registry import find
from xlac_sdk.programs.steps import CollectiveDone, CollectiveStart
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.target import Request


def step(spec: str, batch: int) -> RankProgram:
    """A step of training on the first of two ranks that share the batch."""
    trainer = xlac.trainer(FOLDER / f"{spec}.yaml")
    model = specialized(load(trainer._programs.entries["step"].model), {"batch": batch})
    model = replace(model, allow_kernels=False)
    cpu = find("cpu")
    target = cpu.target(Request())
    return rank_program(model, Mesh((("data", 2),)), 0, cpu, target, idle_axes=True, every=False)


def told(program: RankProgram) -> str:
    """The steps, a letter each: S of a start, D of a done, k of anything else."""
    letters = {CollectiveStart: "S", CollectiveDone: "D"}
    return "".join(letters.get(type(s), "k") for s in program.lowered.program.every_step)


def test_gradients_are_exchanged_while_the_backward_pass_goes_on() -> None:
    """The last layer's gradients start first, and nothing waits before the last one has started."""
    program = step("digits_train", 16)
    order = told(program)
    assert "D" not in order[: order.rindex("S")]
    verify_program(program.lowered.program)
    starts = [s for s in program.lowered.program.every_step if isinstance(s, CollectiveStart)]
    named = [s.origin.name for s in starts if s.origin]
    assert named.index("logits") < named.index("h1")
    between = order[order.index("S") : order.rindex("S")].count("k")
    assert between >= 4, order


def test_groups_run_after_what_they_read() -> None:
    """In the order that hides collectives, too, each group once."""
    program = step("digits_train", 16)
    groups = program.lowered.partition.groups
    seen: set[int] = set()
    made: set[object] = set()
    computed = {node for group in groups for node in group.outputs}
    for group in groups:
        assert all(node in made for node in group.inputs if node in computed)
        made.update(group.outputs)
        seen.add(id(group))
    assert len(seen) == len(groups)


def test_without_collectives_the_order_stays() -> None:
    model = specialized(load(FOLDER / "digits.yaml"), {"batch": 4})
    cpu = find("cpu")
    program = rank_program(model, Mesh((("data", 1),)), 0, cpu, cpu.target(Request()))
    assert overlapped(program.lowered.partition) is program.lowered.partition


def test_a_value_that_is_needed_at_once_is_waited_for_at_once() -> None:
    """A layer divided by features: its sums are in the way, and everything else keeps its order."""
    model = specialized(load(FOLDER / "bert_layer.yaml"), {"batch": 2, "sequence": 8})
    rows, columns = (("model",), ()), ((), ("model",))
    said = dict.fromkeys(("q.weight", "k.weight", "v.weight", "up.weight"), rows)
    said |= dict.fromkeys(("o.weight", "down.weight"), columns)
    section = MeshSection({"model": 2}, {n: SaidSharding(axes) for n, axes in said.items()})
    cpu = find("cpu")
    mesh = Mesh((("model", 2),))
    program = rank_program(replace(model, ranks=section), mesh, 0, cpu, cpu.target(Request()))
    order = told(program)
    assert order.count("S") == 2
    verify_program(program.lowered.program)
    parts = [part for part in order.split("S")[1:] if "D" in part]
    assert all(part.index("D") <= 1 for part in parts), order
