"""A run: its metrics, its epochs, its end, and options that make no sense."""

from __future__ import annotations

import csv
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from logistic import DATA, TEST, LogisticSteps, Told, trained

from xlac.ir.dims import symbol
from xlac.ir.types import Type
from xlac.training.data.order import shuffled
from xlac.training.loop import checkpoint
from xlac_sdk.dtypes import DType
from xlac_sdk.source import SourceError


def test_metrics_are_those_of_the_steps(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", seed=4)
    with (tmp_path / "run" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = "epoch step loss accuracy validate_loss validate_accuracy seconds".split()
    assert [list(row) for row in rows] == [names] * 4
    assert [{n: float(row[n]) for n in names} for row in rows] == run.metrics
    again = LogisticSteps()
    again.set_length(12)
    before = [again.run_evaluate(data) for data in (DATA, TEST)]
    for epoch, row in enumerate(run.metrics):
        sums = {name: np.zeros(2) for name in again.metrics}
        for at in range(0, 50 if epoch else 0, 16):
            rows_ = shuffled(np.arange(at, min(50, at + 16)), 50, 4, epoch)
            for name, pair in again.run_step({n: a[rows_] for n, a in DATA.items()}).items():
                sums[name] += pair
        now = [sums, again.run_evaluate(TEST)] if epoch else before
        for prefix, part in zip(("", "validate_"), now, strict=True):
            for name, (total, count) in part.items():
                assert row[prefix + name] == pytest.approx(total / count, rel=1e-6)
        assert (row["epoch"], row["step"]) == (epoch, 4 * epoch)
    assert (
        run.metrics[0]["loss"] == pytest.approx(np.log(4))
        and run.metrics[0]["loss"] > run.metrics[3]["loss"]
    )


def test_drop_last_and_the_order_of_epochs(tmp_path: Path) -> None:
    made = LogisticSteps()
    run = trained(tmp_path / "run", made, drop_last=True, epochs=2)
    assert run.steps == 6 and [len(t) for t in made.seen] == [16] * 6
    first, second = (np.concatenate(made.seen[at : at + 3]).tolist() for at in (0, 3))
    assert first == DATA["label"][shuffled(np.arange(48), 50, 0, 1)].tolist() != second


def test_last_and_best_checkpoints_are_kept(tmp_path: Path) -> None:
    made = LogisticSteps(rate=2.0)  # it overshoots
    run = trained(tmp_path / "run", made, epochs=12, keep=2, best="validate_loss:min")
    names = [path.name for path in checkpoint.listed(tmp_path / "run" / "checkpoints")]
    assert names == ["checkpoint-0000000048.safetensors", "checkpoint-0000000044.safetensors"]
    losses = [row["validate_loss"] for row in run.metrics[1:]]
    best = checkpoint.read(tmp_path / "run" / "best.safetensors")
    assert best.position.step == 4 * (int(np.argmin(losses)) + 1) < 44
    weights = checkpoint.SafetensorsFile(tmp_path / "run" / "best_weights.safetensors")["w"]
    np.testing.assert_array_equal(weights, best.state["w"])
    made.restore(best.state)
    loss, count = made.run_evaluate(TEST)["loss"]
    assert loss / count == pytest.approx(min(losses))


def test_patience_and_max_steps(tmp_path: Path) -> None:
    told = Told()
    run = trained(tmp_path / "run", LogisticSteps(rate=2.0), epochs=50, patience=2, report=told)
    losses = [row["validate_loss"] for row in run.metrics[1:]]
    assert len(losses) == int(np.argmin(losses)) + 3 < 50
    assert told.lines[-1] == "validate_loss was not better for 2 epochs: the end"
    short = trained(tmp_path / "short", max_steps=6)
    assert [(r["epoch"], r["step"]) for r in short.metrics] == [(0, 0), (1, 4), (2, 6)]
    longer = trained(tmp_path / "short", LogisticSteps(), max_steps=10, resume=True)
    assert [(r["epoch"], r["step"]) for r in longer.metrics] == [(0, 0), (1, 4), (2, 8), (3, 10)]
    assert trained(tmp_path / "zero", max_steps=0).steps == 0


def test_events_for_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the writer is told; the steps of a run that was killed are void."""
    told: list[Any] = []

    class SummaryWriter:
        def __init__(self, folder: str, purge_step: int) -> None:
            told.append((folder, purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            told.append((name, value, step))

        def flush(self) -> None:
            pass

        def close(self) -> None:
            told.append("closed")

    writer = types.ModuleType("tensorboardX")
    writer.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorboardX", writer)
    run = trained(tmp_path / "run", tensorboard=True, epochs=2)
    assert told[0] == (str(tmp_path / "run" / "tensorboard"), 1) and told[-1] == "closed"
    for row in run.metrics:
        for name in ("loss", "accuracy", "validate_loss", "validate_accuracy", "seconds"):
            assert (name, row[name], row["step"]) in told
    trained(tmp_path / "run", tensorboard=True, resume=True)
    assert (str(tmp_path / "run" / "tensorboard"), 9) in told
    for package in ("tensorboardX", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        SourceError,
        match=r"--tensorboard needs the package tensorboardX.*XL7010\]\n.*pip install "
        r"'xlac\[tensorboard\]'",
    ):
        trained(tmp_path / "other", tensorboard=True)
    assert not (tmp_path / "other").exists()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("written", [False, True])
def test_events_can_be_read(written: bool, tmp_path: Path) -> None:
    """By TensorBoard's own format, where its writer is installed."""
    if not written:
        return
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    run = trained(tmp_path / "run", tensorboard=True)
    (file,) = (tmp_path / "run" / "tensorboard").iterdir()
    data, found = file.read_bytes(), {}
    while data:
        size = int.from_bytes(data[:8], "little")
        event = Event.FromString(data[12 : 12 + size])
        data = data[16 + size :]
        found |= {(v.tag, event.step): v.simple_value for v in event.summary.value}
    for row in run.metrics:
        assert found["validate_loss", row["step"]] == pytest.approx(row["validate_loss"])


# ---- options -------------------------------------------------------------------------------------


def fixed(rows: int) -> LogisticSteps:
    made = LogisticSteps()
    made.batch = ""
    made.inputs = {"image": Type(DType.F32, (rows, 8)), "label": Type(DType.I32, (rows,))}
    return made


def least(rows: int, multiple: int = 1) -> LogisticSteps:
    made = LogisticSteps()
    n = symbol("batch", rows, 64, 16, multiple)
    made.inputs = {"image": Type(DType.F32, (n, 8)), "label": Type(DType.I32, (n,))}
    return made


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "how long": ({"epochs": None}, r"the length of the training is not given \[XL6337\]"),
    "epochs": ({"epochs": -1}, r"epochs is -1, and at least 0 \[XL6337\]"),
    "keep": ({"keep": 0}, "XL6337"),
    "metric": (
        {"best": "validate_acuracy:max"},
        r"there is no metric 'validate_acuracy' \[XL6337\]",
    ),
    "direction": ({"best": "accuracy"}, r"whether 'accuracy' should be small or large.*XL6337"),
    "batch": ({"batch": 513}, r"513 rows in a batch: the size 'batch' is 1..512 \[XL6309\]"),
    "last": (
        {"made": least(4), "batch": 16},
        r"the last batch of 50 rows has 2, and the size 'batch' is 4 or more \[XL6309\]",
    ),
    "multiple": ({"made": least(1, 4), "batch": 16}, "XL6309"),
    "no batch": ({"batch": 64, "drop_last": True}, r"50 rows are not a batch of 64 \[XL6309\]"),
    "fixed": (
        {"made": fixed(10), "batch": 10},
        r"the inputs have 10 rows, and no size to choose \[XL6309\]",
    ),
    "fixed rest": (
        {"made": fixed(16), "batch": None},
        r"the last batch of 50 rows has 2, and every batch has 16 \[XL6309\]",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_options_that_make_no_sense(case: str, tmp_path: Path) -> None:
    options, told = WRONG[case]
    with pytest.raises(SourceError, match=told):
        trained(tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_sizes_of_batches(tmp_path: Path) -> None:
    assert trained(tmp_path / "opt", batch=None, epochs=1).steps == 4
    assert trained(tmp_path / "fixed", fixed(10), batch=None, epochs=1).steps == 5
    dropped = trained(
        tmp_path / "dropped", fixed(20), batch=None, epochs=1, drop_last=True, validate=None
    )
    assert dropped.steps == 2


def test_a_loss_that_is_not_finite(tmp_path: Path) -> None:
    class Diverging(LogisticSteps):
        def run_step(self, arrays: Any) -> Any:
            sums = super().run_step(arrays)
            return {**sums, "loss": (float("nan"), 1.0)} if self.steps_done == 6 else sums

    with pytest.raises(
        SourceError,
        match=r"the loss of step 6 \(epoch 2\) is nan "
        r"\[XL6338\]\n.*checkpoint-0000000004.safetensors is from before",
    ):
        trained(tmp_path / "run", Diverging())
    assert len((tmp_path / "run" / "metrics.csv").read_text().splitlines()) == 3
