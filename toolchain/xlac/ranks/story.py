"""Explains how a model is divided among ranks: every collective, and the memory of each rank."""

from __future__ import annotations

from collections.abc import Iterator

from xlac.ops.collective.group import Collective
from xlac.ranks.program import RankProgram, memory_of
from xlac.spmd.cost import NetworkLink, seconds, sent
from xlac.spmd.mesh import Sharding
from xlac.spmd.model import collectives, repeats
from xlac_sdk.support.counts import number_of


def tell_ranks(program: RankProgram, link: NetworkLink) -> str:
    """A line for each collective with why it is there, the bytes that each rank sends and the
    predicted time; what is divided; and the memory of each rank, which is the same for all.
    """
    plan = program.plan
    lines = [f"mesh {plan.mesh}: {number_of(plan.mesh.ranks, 'rank')}; links of {link}"]
    for title, shardings in (
        ("inputs", plan.inputs),
        ("weights", plan.weights),
        ("outputs", plan.outputs),
    ):
        lines += _divided(title, dict(shardings))
    total, time = 0, 0.0
    found, times = collectives(plan), repeats(plan.graph)
    for node, reason in found:
        op, many = node.op, times[node]
        assert isinstance(op, Collective)
        amount, needed = sent(node), seconds(node, link)
        total, time = total + amount * (many or 1), time + needed * (many or 1)
        often = ", in each turn of a loop" if many is None else f", {many:,} times" * (many != 1)
        lines.append(
            f"{op.mnemonic} over {', '.join(op.axes)}: {node.inputs[0].type}, "
            f"{amount:,} bytes, {needed * 1e6:.1f} us{often}: {reason}"
        )
    count = f"{len(found)} collective{'s' if len(found) != 1 else ''}"
    lines.append(f"in all {count}, {total:,} bytes sent by each rank, {time * 1e6:.1f} us")
    needs = memory_of(program)
    lines.append(
        "memory of each rank: "
        + ", ".join(f"{amount:,} bytes of {name}" for name, amount in needs.items())
    )
    return "\n".join(lines)


def _divided(title: str, shardings: dict[str, Sharding]) -> Iterator[str]:
    some = {name: axes for name, axes in shardings.items() if any(axes)}
    if some:
        texts = [f"{name} [{', '.join(map(_axes, axes))}]" for name, axes in some.items()]
        yield f"divided {title}: {', '.join(texts)}"


def _axes(names: tuple[str, ...]) -> str:
    return "null" if not names else names[0] if len(names) == 1 else f"[{', '.join(names)}]"
