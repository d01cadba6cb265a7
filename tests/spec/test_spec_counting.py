"""Operations are counted before they are made, as exactly as can be without making them, and never
too many.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from xlac.spec.elaborate import context
from xlac.spec.load import load
from xlac_sdk.source import SourceError

PART = "    inputs: {x: 'f32[4]'}\n"


def spec(tmp_path: Path, blocks: str, graph: str, more: str = "") -> Path:
    file = tmp_path / "m.yaml"
    file.write_text(
        f"xlac: 1\nmodel: m\nweights: {{init: {{}}}}\n{more}blocks:\n{blocks}inputs: {{x: "
        f"'f32[4]'}}\ngraph: {{{graph}}}\noutputs: [y]\n"
    )
    return file


def doubling(levels: int) -> str:
    first = f"  b0:\n{PART}    graph: {{y: relu(x)}}\n    outputs: [y]\n"
    return first + "".join(
        (
            f"  b{n}:\n{PART}    graph: {{p: {{block: b{n - 1}, in: x}}, q: {{block: b{n - 1}, in: "
            "p}}\n    outputs: [q]\n"
        )
        for n in range(1, levels)
    )


GROWING = {
    "blocks in blocks": (doubling(38), "y: {block: b37, in: x}"),
    "copies of copies": (
        (
            f"  a:\n{PART}    graph: {{y: relu(x)}}\n    outputs: [y]\n  b:\n{PART}    graph: {{y: "
            "{block: a, in: x, repeat: 9999}}\n    outputs: [y]\n"
        ),
        "y: {block: b, in: x, repeat: 9999}",
    ),
    "a parameter": (doubling(10), "y: {block: b9, in: x, repeat: '$n'}"),
    "a loop": (
        doubling(30),
        "y: {scan: {}, length: 3, carry: {c: x}, body: {z: {block: b29, in: c}}, next: {c: z}}",
    ),
    "several uses": (doubling(19), "p: {block: b17, in: x}, y: {block: b17, in: p}"),
}


@pytest.mark.parametrize("what", GROWING)
def test_what_multiplies_is_refused_before_it_is_made(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr(
        context.Elaboration, "stamp", lambda self, nodes, origin: made.append(origin)
    )
    with pytest.raises(SourceError, match="XL4018"):
        load(spec(tmp_path, *GROWING[what], more="params: {n: 9000}\n"), weights=False)
    assert not made


def test_what_is_not_taken_does_not_count(tmp_path: Path) -> None:
    file = spec(tmp_path, doubling(38), "h: {block: b37, in: x, when: false, else: x}, y: h + 1.0")
    assert load(file).graph.outputs["y"].shape == (4,)
    file = spec(tmp_path, doubling(8), "y: {block: b7, in: x}")
    assert sum(node.op.mnemonic == "relu" for node in load(file).graph.nodes()) == 2**7
