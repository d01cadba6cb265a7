"""Entries of a graph: their order does not matter, their names may be any, and nodes know their
places.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from spec_models import model, random, run

from xlac.ir.interpret import interpret


def test_order_does_not_matter(tmp_path: Path) -> None:
    text = "graph:\n  y: relu(a) + b\n  b: a * 2\n  a: x + 1\ninputs: {x: 'f32[3]'}\noutputs: [y]\n"
    x = random(3)
    np.testing.assert_allclose(
        run(model(tmp_path, text), x=x)["y"], np.maximum(x + 1, 0) + (x + 1) * 2, rtol=1e-6
    )


@pytest.mark.parametrize(
    "name",
    [
        "int",
        "{{ config }}",
        "a'b",
        'say "x"',
        "🙂",
        "été",
        "../../x",
        "__class__",
        "for",
        "; system(1)",
        "a b",
        "x" * 256,
    ],
)
def test_any_name_will_do(name: str, tmp_path: Path) -> None:
    quoted = "'" + name.replace("'", "''") + "'"
    text = (
        f"inputs: {{{quoted}: 'f32[3]'}}\ngraph:\n  y: {{op: relu, in: {quoted}}}\noutputs: "
        f"{{{quoted}: y}}\n"
    )
    x = random(3)
    np.testing.assert_array_equal(
        interpret(model(tmp_path, text).graph, {name: x})[name], np.maximum(x, 0)
    )


def test_names_are_normalised(tmp_path: Path) -> None:
    text = (
        "inputs: {x: 'f32[3]'}\ngraph:\n  cafe\u0301: relu(x)\n  \ufb01: relu(caf\u00e9)\n  y: "
        "fi + caf\u00e9\noutputs: [y]\n"
    )
    assert list(model(tmp_path, text).graph.outputs) == ["y"]


def test_a_long_chain_is_no_problem(tmp_path: Path) -> None:
    lines = "".join(f"  n{i}: relu(n{i + 1})\n" for i in range(5000))
    found = model(tmp_path, f"inputs: {{n5000: 'f32[2]'}}\ngraph:\n{lines}outputs: [n0]\n")
    assert sum(1 for _ in found.graph.nodes()) == 5001


def test_origins_name_the_node_and_the_place(tmp_path: Path) -> None:
    text = (
        "inputs: {x: 'f32[3]'}\nblocks:\n  b: {inputs: [v], graph: {h: tanh(v) + 1}, outputs: "
        "[h]}\ngraph:\n  l: {block: b, in: x, repeat: 2}\noutputs: [l]\n"
    )
    found = model(tmp_path, text)
    places = {(n.op.mnemonic, n.name): n.origin.span for n in found.graph.nodes() if n.origin}
    assert places["tanh", "l.1.h"].column == 31 and places["tanh", "l.1.h"].line == 4  # type: ignore[union-attr]
    assert all(n.origin is not None for n in found.graph.nodes())
