"""`xlac plan`: meshes and weights to divide, found on paper."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from xlac.cli import status
from xlac.driver import specialized
from xlac.frontends.loader import load
from xlac.model import Model
from xlac.spmd.cost import NetworkLink, RankDevice
from xlac.spmd.search import MeshPlan, PlanSearch, _options, meshes, weight_groups
from xlac_sdk.host.registry import find
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request

SPEC = """\
xlac: 1
model: wide
mesh: {data: null, model: null}
dims: {batch: {max: 4096, opt: 16}}
inputs: {x: "f32[batch, 64]"}
weights: {init: {seed: 0}}
graph:
  up: {op: linear, in: x, units: 256}
  down: {op: linear, in: relu(up), units: 64}
  y: layer_norm(x + down)
outputs: [y]
"""
LINK = "25GB/s,2us"
FAST = PlanSearch(
    find("reference").target(Request()), NetworkLink.parse(LINK), RankDevice(1e9, 1e9)
)


def model(tmp_path: Path, text: str = SPEC) -> Model:
    path = tmp_path / "wide.yaml"
    path.write_text(text, "utf-8")
    return specialized(load(path, dims={}, params={}))


def test_every_mesh_is_tried_and_the_shortest_step_is_first(tmp_path: Path) -> None:
    whole = model(tmp_path)
    plans = FAST.plans(whole, 4)
    assert {str(p.mesh) for p in plans} == {str(m) for m in meshes(whole.ranks, 4)}
    assert len(plans) == 3
    assert [p.seconds for p in plans] == sorted(p.seconds for p in plans)
    assert plans[0].seconds * 4 >= FAST.alone(whole)


def test_the_plan_of_a_mesh_is_the_best_of_all_choices(tmp_path: Path) -> None:
    """Two matrices, each whole or in parts along either axis: nine choices."""
    whole = model(tmp_path)
    for plan in FAST.plans(whole, 4):
        choices = [[{}, *_options(group, plan.mesh)] for group in weight_groups(whole)]
        tried = [
            FAST._tried(whole, plan.mesh, {k: v for one in chosen for k, v in one.items()})
            for chosen in product(*choices)
        ]
        assert plan.seconds == min(t.seconds for t in tried if t is not None)


def test_matrices_are_divided_by_columns_then_rows(tmp_path: Path) -> None:
    """One sum over ranks, as Megatron has it: what is not said of the second follows."""
    whole = model(tmp_path, SPEC.replace("data: null, ", ""))
    search = PlanSearch(FAST.target, NetworkLink.parse("25GB/s,100us"), FAST.device)
    (plan,) = search.plans(whole, 2)
    assert plan.chosen in ({"up.weight": (("model",), ())}, {"down.weight": ((), ("model",))})
    assert plan.time.wire == pytest.approx(100e-6, rel=0.5)


def test_what_does_not_fit_is_left_out(tmp_path: Path) -> None:
    whole = model(tmp_path)

    def least(plans: list[MeshPlan]) -> int:
        return min(p.kept for p in plans)

    every = FAST.plans(whole, 4)
    limit = least(every)
    fitting = PlanSearch(FAST.target, FAST.link, FAST.device, limit).plans(whole, 4)
    assert 0 < len(fitting) < len(every)
    assert all(p.kept <= limit for p in fitting)
    with pytest.raises(SourceError, match="every plan needs") as caught:
        PlanSearch(FAST.target, FAST.link, FAST.device, 1000).plans(whole, 4)
    assert caught.value.diagnostics[0].code == "XL7814"


def test_what_is_printed_is_a_spec_of_that_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`explain` of the model with these sections has the memory and wire time that were told."""
    model(tmp_path)
    options = ["--dim", "batch=16", "--link", LINK, "--target", "reference"]
    path = str(tmp_path / "wide.yaml")
    assert status(["plan", path, "--ranks", "4", "--max-memory", "48K", *options]) == 0
    told = capsys.readouterr().out
    first = told.splitlines()[2]
    found = re.search(r"(\S+) (ms|us) +\S+% +\S+% +([\d,]+) bytes  (\S+)$", first)
    assert found is not None
    wire, unit, memory, mesh = found.groups()
    sections = told[told.index("mesh: {") :]
    (tmp_path / "planned.yaml").write_text(
        SPEC.replace("mesh: {data: null, model: null}\n", sections), "utf-8"
    )
    planned = str(tmp_path / "planned.yaml")
    assert status(["explain", planned, "--mesh", mesh, *options]) == 0
    out = capsys.readouterr().out
    needs = next(line for line in out.splitlines() if line.startswith("memory of each rank"))
    counts = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) bytes of", needs)]
    assert sum(counts) == int(memory.replace(",", ""))
    total = re.search(r"sent by each rank, ([\d.]+) us", out)
    assert total is not None
    assert unit == "us"
    assert float(total[1]) == float(wire.replace(",", ""))


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model(tmp_path)
    path = str(tmp_path / "wide.yaml")
    for options, problem in (
        (["--ranks", "4", "--device", "fast"], "'fast' is no device"),
        (["--ranks", "7", "--dim", "batch=1"], "no mesh of 7 ranks gives each of them work"),
        (["--ranks", "2", "--max-memory", "1K"], "every plan needs"),
    ):
        assert status(["plan", path, *options]) == 2
        assert problem in capsys.readouterr().err
