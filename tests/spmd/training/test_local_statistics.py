"""`train: {statistics: local}`: each rank normalizes by its own part of the batch, as DDP does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_rank_training import check_states, collectives_of

import xlac
from xlac.cli import status
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ops import build
from xlac.ops.nn.batch_normalization import BatchNorm
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.host.ranks.threads import ThreadRank, together
from xlac_sdk.source import UnsupportedError

SPEC = """\
xlac: 1
model: normed
mesh: {data: null}
dims: {batch: {max: 32, opt: 8, multiple_of: 4}}
weights: {init: {seed: 0}}
inputs: {x: "f64[batch, 3, 5, 5]", y: "i32[batch]"}
graph:
  c: {op: conv2d, in: x, filters: 4, kernel: 3}
  n: {op: batch_norm, in: c}
  p: mean(relu(n), axis=[2, 3])
  o: {op: linear, in: p, units: 3}
outputs: [o]
train:
  batch: batch
  loss: mean(cross_entropy(o, y))
  optimizer: {sgd: {lr: 0.05}}
  statistics: local
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "normed.yaml"
    path.write_text(SPEC, "utf-8")
    return path


@pytest.mark.parametrize("statistics", ["local", "global"])
def test_a_plan_is_of_the_ranks_own_statistics(
    spec: Path, statistics: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without sums over ranks forwards; of 8 rows only meshes that give each rank as many."""
    spec.write_text(SPEC.replace("statistics: local", f"statistics: {statistics}"), "utf-8")
    wire = {}
    for ranks in (2, 4):
        given = ["--ranks", str(ranks), "--entry", "step", "--dim", "batch=8"]
        assert status(["plan", str(spec), *given]) == 0
        (line,) = (n for n in capsys.readouterr().out.splitlines() if f"data={ranks}" in n[-8:])
        wire[ranks] = float(line.split()[4])
    explained = []
    for mesh in ("data=2", "data=4"):
        options = ["--entry", "step", "--dim", "batch=8", "--mesh", mesh]
        assert status(["explain", str(spec), *options]) == 0
        total = next(n for n in capsys.readouterr().out.splitlines() if n.startswith("in all"))
        explained.append(float(total.split()[-2]))
    assert list(wire.values()) == pytest.approx(explained, rel=0.01)


def rows(count: int, seed: int = 0) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((count, 3, 5, 5)) * np.arange(1, count + 1)[:, None, None, None]
    return {"x": x, "y": (x[:, 0, 0, 0] > 0).astype(np.int32)}


def after(spec: Path, batch: dict[str, Array], rank: ThreadRank | None, mesh: str) -> Any:
    """The state after one step, and the collectives of it."""
    trainer = xlac.trainer(spec, mesh=mesh if rank else None, target="reference")
    loss = trainer.step(**batch)["loss"]
    return trainer.state(), loss, collectives_of(trainer, "step") if rank else Counter()


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_step_is_the_mean_of_steps_on_parts(spec: Path, ranks: int) -> None:
    """Without momentum: as if each rank trained alone on its part, and weights were averaged then.
    Running statistics are those of the first.
    """
    batch = rows(8)
    size = 8 // ranks
    trainer = xlac.trainer(spec, target="reference")
    losses: list[float] = []
    states: list[dict[str, Array]] = []
    for k in range(ranks):
        trainer.reset()
        part = {n: a[k * size : (k + 1) * size] for n, a in batch.items()}
        losses.append(trainer.step(**part)["loss"])
        states.append(trainer.state())
    wanted = {n: np.mean([s[n] for s in states], axis=0) for n in states[0]}
    for name in ("n.mean", "n.variance"):
        assert not np.allclose(states[0][name], states[1][name])
        wanted[name] = states[0][name]
    made = together(ranks, lambda rank: after(spec, batch, rank, f"data={ranks}"))
    for state, loss, _ in made:
        assert loss == pytest.approx(np.mean(losses))
        check_states(wanted, state)


def test_statistics_need_no_sums_over_ranks(spec: Path) -> None:
    """The loss and six gradients, of which two are those of batch_norm; what is known of the mean
    and the variance comes from the first rank. Those of the whole batch need four sums more.
    """
    ((_, _, own), *_) = together(2, lambda rank: after(spec, rows(8), rank, "data=2"))
    spec.write_text(SPEC.replace("local", "global"), "utf-8")
    ((_, _, of_all), *_) = together(2, lambda rank: after(spec, rows(8), rank, "data=2"))

    def count(found: Counter[str], kind: str) -> int:
        return sum(many for name, many in found.items() if name.startswith(kind))

    assert count(own, "all_reduce") == 1 + 6 and count(own, "all_gather") == 2
    assert count(of_all, "all_reduce") > count(own, "all_reduce") and not count(of_all, "all_g")


def test_one_process_has_one_part(spec: Path) -> None:
    state, *_ = after(spec, rows(8), None, "")
    spec.write_text(SPEC.replace("statistics: local", "statistics: global"), "utf-8")
    whole, *_ = after(spec, rows(8), None, "")
    check_states(whole, state)


def test_a_run_goes_on_with_other_ranks(spec: Path) -> None:
    """Its fingerprint is that of one process."""
    one = xlac.trainer(spec, target="reference").fingerprint

    def own(rank: ThreadRank) -> str:
        return xlac.trainer(spec, mesh="data=2", target="reference").fingerprint

    assert set(together(2, own)) == {one}


def test_a_batch_without_equal_parts_is_refused(spec: Path) -> None:
    def built(rank: ThreadRank) -> None:
        xlac.trainer(spec, mesh="data=3", target="reference")

    wanted = r"'n' of .* has no batch of 3 equal parts"
    with pytest.raises(UnsupportedError, match=wanted) as caught:
        together(3, built)
    assert caught.value.diagnostics[0].code == "XL7819"
    assert "multiple_of: 3" in str(caught.value.diagnostics[0].hint)


def test_explain_and_c_follow_the_mesh(
    spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["explain", str(spec), "--entry", "step", "--mesh", "data=2", "--target", "reference"]
    assert status(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("all_reduce over data") for line in lines) == 1 + 6
    spec.write_text(SPEC.replace("f64", "f32"), "utf-8")
    out = tmp_path / "c"
    assert status(["build", str(spec), "--target", "c", "--mesh", "data=2", "-o", str(out)]) == 0
    assert "MPI_Iallgather" in (out / "normed.c").read_text("utf-8")


def normed(x: Node, groups: int) -> tuple[Node, ...]:
    """A batch norm in training, and the mean and variance that it learns."""
    names = [build.param(n, DType.F32, (x.shape[1],)) for n in ("w", "b", "mean", "variance")]
    node = Node.of(BatchNorm(groups=groups), x, *names)
    result, measured = node.op.in_training(node, lambda type: x)  # type: ignore[misc]
    return result, *measured.values()


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 5), (6, 4, 3, 2)])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_groups_are_batches_of_their_own(shape: tuple[int, ...], groups: int) -> None:
    rng = np.random.default_rng(2)
    array = rng.standard_normal(shape).astype(np.float32)
    given = {n: rng.uniform(0.5, 1.5, 4).astype(np.float32) for n in ("w", "b", "mean", "variance")}

    def run(array: Array, groups: int) -> dict[str, Array]:
        x = build.param("x", DType.F32, array.shape)
        outputs = {f"y{n}": node for n, node in enumerate(normed(x, groups))}
        return interpret(Graph("g", (x,), outputs), {"x": array, **given}, {}, float64=True)

    parts = [run(part, 1) for part in np.split(array, groups)]
    got = run(array, groups)
    np.testing.assert_allclose(got["y0"], np.concatenate([p["y0"] for p in parts]), atol=1e-12)
    for name in ("y1", "y2"):
        np.testing.assert_allclose(got[name], parts[0][name], atol=1e-12)
