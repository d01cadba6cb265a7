"""The document of a report: its schema, and what its sections say of a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from page_document import document_of

from xlac.cli import root
from xlac.debug.report import page, written_graph
from xlac.debug.report.document import ReportData
from xlac.debug.report.kernel_code import code_of, labels
from xlac.debug.report.pass_changes import PassRecorder
from xlac.debug.report.spec_text import SpecText
from xlac.debug.report.stage_times import PASSES, StageTimes
from xlac.debug.report.written_graph import CROWD, GraphTree
from xlac.driver import lower, specialized
from xlac.frontends.loader import load
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

SPECS = Path(__file__).parents[2] / "specs"
SCHEMA = json.loads((page.PAGE.parent / "schema.json").read_text())


def document(file: Path, target: str = "cpu") -> dict[str, Any]:
    """The document of a model that is not run."""
    model = specialized(load(file))
    backend = find(target)
    passes, stages = PassRecorder(), StageTimes()
    with stages.watching("reading the model"):
        lowered = lower(model, backend.target(Request()), observers=[passes])
    made = ReportData(lowered, model.graph, backend, passes, stages).json()
    jsonschema.validate(made, SCHEMA)
    return made


@pytest.fixture(scope="module")
def bert() -> dict[str, Any]:
    return document(SPECS / "bert_layer.yaml")


def test_the_graph_is_the_written_one(bert: dict[str, Any]) -> None:
    nodes, strings = bert["graph"]["nodes"], bert["graph"]["strings"]
    drawn = [n for n, kind in enumerate(nodes["kind"]) if kind not in ("weight", "constant")]
    ops = [strings[nodes["op"][n]] for n in drawn if nodes["kind"][n] == "op"]
    assert ops.count("linear") == 6 and ops.count("attention") == 1
    context = nodes["name"].index("context")
    read = {nodes["name"][n] for n in nodes["inputs"][context]}
    assert read == {"q", "k", "v", "mask"}
    file, line = nodes["place"][context]
    assert "context: {op: attention" in bert["files"][file]["text"].splitlines()[line - 1]
    names = [block["name"] for block in bert["graph"]["blocks"]]
    assert names == ["bert_layer", "ln1", "down", "ln2"]  # entries of several operations


def test_every_kernel_has_its_code_and_lines(bert: dict[str, Any]) -> None:
    for kernel in bert["kernels"]:
        assert f"@k{bert['kernels'].index(kernel)}_{kernel['name']}" in kernel["source"]
        assert (
            kernel["assembly"]
            .rstrip()
            .splitlines()[0]
            .rstrip(":")
            .endswith((kernel["name"], f"{kernel['name']}.strip"))
        )
        assert "ret" in kernel["assembly"] and kernel["places"] and kernel["computes"]
    others = {k["name"]: k["assembly"] for k in bert["kernels"]}
    assert len(set(others.values())) == len(others)


def test_groups_say_why(bert: dict[str, Any]) -> None:
    names = {kernel["name"] for kernel in bert["kernels"]}
    launched = {name for group in bert["groups"] for name in group["kernels"]}
    assert launched == names
    whys = [why for group in bert["groups"] for why, _ in group["reads"] + group["writes"]]
    assert "dot reads its operands many times" in whys


def test_passes_show_what_changed(bert: dict[str, Any]) -> None:
    expand = next(one for one in bert["passes"] if one["name"] == "expand")
    changes = {path: (gone, made) for path, gone, made in expand["changes"]}
    gone, made = changes["q"]
    assert [line.split(" = ")[1].split("(")[0] for line in gone] == ["linear"]
    assert any("= dot(" in line for line in made)
    for one in bert["passes"]:
        assert one["changed"] == ("changes" in one)
    stages = {stage["name"]: stage for stage in bert["stages"]}
    # the recorder's own work is no time of a pass
    assert [(inner["name"], inner["seconds"]) for inner in stages[PASSES]["inside"]] == [
        (one["name"], one["seconds"]) for one in bert["passes"]
    ]
    assert stages[PASSES]["seconds"] == sum(one["seconds"] for one in bert["passes"])


def test_memory_adds_up(bert: dict[str, Any]) -> None:
    memory = bert["memory"]
    for step, alive in enumerate(memory["alive"]):
        here = [b for b in memory["buffers"] if b["first"] <= step <= b["last"]]
        assert alive == sum(b["bytes"] for b in here)
        for one in here:
            assert one["offset"] + one["bytes"] <= memory["arena"]
            for other in here:
                apart = one is other or (
                    one["offset"] + one["bytes"] <= other["offset"]
                    or other["offset"] + other["bytes"] <= one["offset"]
                )
                assert apart
    assert max(memory["alive"]) == memory["live"]
    assert memory["steps"][1] == bert["groups"][0]["kernels"][0]


def test_loops_are_blocks_with_their_inside() -> None:
    made = document(SPECS / "loop_scan.yaml", "c")
    blocks, nodes = made["graph"]["blocks"], made["graph"]["nodes"]
    loops = [n for n, block in enumerate(blocks) if block["node"] >= 0]
    assert loops
    for loop in loops:
        assert any(home == loop for home in nodes["block"])


def test_a_crowd_is_shown_in_parts(tmp_path: Path) -> None:
    many = 3 * CROWD
    lines = [f"  n{i}: {{op: tanh, in: {'x' if i == 0 else f'n{i - 1}'}}}" for i in range(many)]
    text = "xlac: 1\nmodel: long\ninputs:\n  x: f32[8]\ngraph:\n" + "\n".join(lines)
    file = tmp_path / "long.yaml"
    file.write_text(f"{text}\noutputs: [n{many - 1}]\n")
    graph = document(file, "reference")["graph"]
    inside = [n for block in graph["blocks"] for n in block["nodes"]]
    assert sorted(inside) == list(range(len(graph["nodes"]["name"])))
    assert max(len(block["nodes"]) for block in graph["blocks"]) <= CROWD
    for number, home in enumerate(graph["nodes"]["block"]):
        assert number in graph["blocks"][home]["nodes"]


@pytest.mark.parametrize("many", [8, 9, 200])
def test_a_crowd_of_nodes_and_blocks_is_shown_in_parts_of_parts(
    many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, each once, and no more than CROWD in one; the graph is not compiled."""
    monkeypatch.setattr(written_graph, "CROWD", 8)
    lines = [f"  n{i}: tanh(x)" if i % 3 else f"  b.{i}.m: tanh(x)" for i in range(many)]
    lines += [f"  b.{i}.s: abs(x)" for i in range(0, many, 3)]
    text = "xlac: 1\nmodel: wide\ninputs:\n  x: f32[8]\ngraph:\n" + "\n".join(lines)
    file = tmp_path / "wide.yaml"
    file.write_text(
        f"{text}\noutputs: [{', '.join(line.split(':')[0].strip() for line in lines)}]\n"
    )
    graph = load(str(file)).graph
    shown = GraphTree(graph, SpecText()).json(graph)
    blocks, homes = shown["blocks"], shown["nodes"]["block"]
    children: dict[int, int] = {}
    for number, block in enumerate(blocks[1:], 1):
        assert 0 <= block["parent"] < len(blocks) and block["parent"] != number
        children[block["parent"]] = children.get(block["parent"], 0) + 1
    assert max(children.get(n, 0) + len(b["nodes"]) for n, b in enumerate(blocks)) <= 8
    for number, home in enumerate(homes):
        depth, at = 0, home
        while at:
            at, depth = blocks[at]["parent"], depth + 1
        assert number in blocks[home]["nodes"] and depth <= 8


def test_code_is_cut_at_functions() -> None:
    c = "static int a(int x) {\n  return x;\n}\nvoid k0_b(void) {\n  a(1);\n}\nvoid c(void);\n"
    assert code_of({"x.c": c}, {"a", "b", "c"}) == {
        "a": "static int a(int x) {\n  return x;\n}",
        "b": "void k0_b(void) {\n  a(1);\n}",
    }
    python = "import numpy\ndef a(x):\n    return x\n\ndef b():\n    a(1)\n"
    assert set(code_of({"x.py": python}, {"a", "b"})) == {"a", "b"}
    asm = "a:\n\tret\n\t.size\ta, 1\nk1_b.strip:\n\tnop\n.L1:\n\tret\nb2:\n\tret\nk1_b:\n\tret\n"
    found = labels(asm, {"a", "b"})
    assert found["a"] == "a:\n\tret"
    assert found["b"].startswith("k1_b.strip:") and found["b"].endswith("k1_b:\n\tret")


def test_the_command_measures_verifies_and_writes(tmp_path: Path) -> None:
    html, data = tmp_path / "r.html", tmp_path / "r.json"
    arguments = ["report", str(SPECS / "softmax.yaml"), "--target", "cpu", "-o", str(html)]
    more = ["--seconds", "0.02", "--verify", "--json", str(data)]
    result = CliRunner().invoke(root, [*arguments, *more], catch_exceptions=False)
    assert result.exit_code == 0 and str(html) in result.output
    found = json.loads(data.read_text())
    jsonschema.validate(found, SCHEMA)
    assert document_of(html.read_text()) == found
    kernels = {kernel["name"] for kernel in found["kernels"]}
    assert {step["kernel"] for step in found["times"]["steps"]} <= kernels | {"copy"}
    assert found["times"]["seconds"] > 0 and found["ceilings"]["flops_per_second"] > 0
    assert found["errors"]["verdict"] == "right"
    shares = [value["share_of_bound"] for value in found["errors"]["values"]]
    assert shares and all(0 <= share <= 1 for share in shares)


@pytest.mark.parametrize("target", [("c",), ("cuda", "--arch", "sm_90a")], ids=lambda t: t[0])
def test_without_a_run_nothing_is_measured(target: tuple[str, ...], tmp_path: Path) -> None:
    html = tmp_path / "r.html"
    spec = str(SPECS / "softmax.yaml")
    arguments = ["report", spec, "--no-run", "-o", str(html), "--target", *target]
    result = CliRunner().invoke(root, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = document_of(html.read_text())
    jsonschema.validate(found, SCHEMA)
    assert found["times"] is None and found["ceilings"] is None and found["errors"] is None
    assert found["model"]["device"] == ("gpu" if target[0] == "cuda" else "cpu")
    assert all("void" in kernel["source"] for kernel in found["kernels"])
