"""Checked programs compiled: every form of control flow, open sizes, variants, state, threads, all
front doors, every target.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.support.failures import CODES, checks_of, kinds
from xlac_sdk.source import SourceError

LOST = """
xlac: 1
model: lost
weights: {init: {seed: 0}}
dims: {T: {min: 1, max: 32, opt: 4}}
inputs: {ids: "i64[T]", x: "f32[T, 4]", n: "i32[T]", labels: "u8[T]",
         k: "i32[]", w: "f32[]", flag: "bool[]", way: "i32[]"}
state:
  total: {type: "f32[]", next: total + w}
graph:
  e: {op: embedding, in: ids, count: 10, dim: 4}
  y: log(x) + e
  q: 100 / n
  loss: cross_entropy(y, labels)
  rnn:
    scan: {i: n, v: y}
    carry: {h: "zeros([4])"}
    body:
      root: sqrt(v + 100.0)
      inner:
        while: steps / (k - 50) < 1
        carry: {a: w, steps: {init: 0, type: "i32[]"}}
        body:
          b: sqrt(a)
        next: {a: b, steps: steps + 40}
    next: {h: "h + root + inner.a"}
    stack: {y: root}
  either:
    cond: flag
    then: {body: {m: (e - e) / w}, outputs: {y: m}}
    else: {outputs: {y: e}}
  one: {cond: way, with: {v: y}, branches: [relu(v), tanh(v)]}
outputs: {y: y, q: q, loss: loss, h: rnn.h, either: either.y, one: one, sum: total + w}
"""


def good(T: int = 5) -> dict[str, Any]:
    return {
        "ids": np.arange(T) % 10,
        "x": np.ones((T, 4), np.float32),
        "n": np.arange(1, T + 1, dtype=np.int32),
        "labels": np.arange(T, dtype=np.uint8) % 4,
        "k": np.int32(60),
        "w": np.float32(0.5),
        "flag": np.bool_(True),
        "way": np.int32(0),
    }


def put(array: Any, at: Any, value: Any) -> Any:
    array = np.array(array)
    array[at] = value
    return array


# what is given instead, and the number, node, position, value, turn of the loop that are told
BAD: dict[str, tuple[dict[str, Any], str, str, Any, int | None, int]] = {
    "embedding": ({"ids": put(good()["ids"], 3, 10)}, "XL6020", "e", (3,), 10, 0),
    "embedding below": ({"ids": put(good()["ids"], 0, -1)}, "XL6020", "e", (0,), -1, 0),
    "nan": ({"x": put(good()["x"], (2, 1), -3.0)}, "XL6022", "y", (2, 1), None, 0),
    "division": ({"n": put(good()["n"], 4, 0)}, "XL6021", "q", (4,), 100, 0),
    "label": ({"labels": put(good()["labels"], 1, 4)}, "XL6020", "loss", (1,), 4, 0),
    "inside a scan": ({"x": put(good()["x"], (3, 2), 1e-45)}, "XL6022", "rnn.root", (2,), None, 4),
    "inside a loop of a loop": ({"w": np.float32(-0.5)}, "XL6022", "rnn.inner.b", None, None, 1),
    "in a condition": ({"k": np.int32(50)}, "XL6021", "rnn.inner.while", None, 0, 1),
    "in a branch": ({"w": np.float32(0)}, "XL6022", "either.then.m", (0, 0), None, 0),
    "in the other branch": ({"w": np.float32(0), "flag": np.bool_(False)}, "", "", None, None, 0),
    "branch": ({"way": np.int32(2)}, "XL6020", "one", None, 2, 0),
}


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("checked") / "lost.yaml"
    file.write_text(LOST)
    return file


def see(
    model: Any,
    plain: Any,
    bad: dict[str, Any],
    code: str,
    node: str,
    position: Any,
    value: int | None,
    turn: int,
) -> None:
    given = good() | bad
    if not code:
        plain.reset()
        model.reset()
        found, wanted = model(**given), plain(**given)
        for name, array in wanted.items():
            assert np.allclose(found[name], array, rtol=1e-6, equal_nan=True), name
        return
    with pytest.raises(xlac.CheckFailed) as failed:
        model(**given)
    error = failed.value
    assert (error.diagnostics[0].code, error.node, error.position, error.value) == (
        code,
        node,
        position,
        value,
    ), str(error)
    line = next(
        n
        for n, text in enumerate(LOST.splitlines(), 1)
        if f" {node.rpartition('.')[2]}:" in text.replace("{", " ")
    )
    assert f"lost.yaml:{line}:" in str(error)
    assert (f"in turn {turn} of the loop" in str(error)) == bool(turn)


@pytest.fixture(scope="module")
def plain(spec: Path) -> Any:
    return xlac.compile(spec, "cpu", checked=False)


@pytest.mark.parametrize(("target", "options"), [
    ("cpu", {}), ("cpu", {"sizes": "symbolic"}), ("c", {"sizes": "symbolic"}),
    ("reference", {"sizes": "symbolic"}), ("cpu",
                                           {"sizes": "symbolic", "variants": [{"T": 5}],
                                            "threads": 2}),
])  # fmt: skip
@pytest.mark.sampled(12)
def test_each_place(target: str, options: Any, spec: Path, plain: Any) -> None:
    model = xlac.compile(spec, target, checked=True, **options)
    for bad, *wanted in [({}, "", "", None, None, 0), *BAD.values()]:
        see(model, plain, bad, *wanted)


ROWS = """
xlac: 1
model: rows
weights: {init: {seed: 0}}
inputs: {ids: "i32[3]"}
graph: {e: {op: embedding, in: ids, count: 10, dim: 4}}
outputs: {y: log(e * e)}
"""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "rows.yaml"
    file.write_text(ROWS)
    return file


LOW, HIGH = np.asarray([1, 2, 3], np.int32), np.asarray([1, 2, 30], np.int32)


def test_what_is_kept_on_disk_is_checked_or_not_as_asked(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path / "cache"))
    for _ in range(2):  # made, then found
        assert xlac.compile(rows, checked=False)(HIGH).shape == (3, 4)
        with pytest.raises(
            xlac.CheckFailed,
            match=r"rows.yaml:6:9: error: 'e': index 30 is outside 0 to 9 at \[2\]",
        ):
            xlac.compile(rows, checked=True)(HIGH)
        assert np.isfinite(xlac.compile(rows, checked="nan,infinity")(HIGH)).all()
    kept = [json.loads(file.read_text()) for file in (tmp_path / "cache").rglob("program.json")]
    assert sorted(len(checks_of(told["facts"])) for told in kept) == [0, 3, 4]


def test_the_environment_checks_a_whole_run(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @xlac.jit
    def quotient(x: Any, y: Any) -> Any:
        return xlac.floor_divide(x, y)

    seven = np.asarray([7], np.int32)
    assert quotient(seven, seven * 0) == -1
    for text, fails in (
        ("1", True),
        ("bounds,division", True),
        ("nan", False),
        ("0", False),
        ("off", False),
    ):
        monkeypatch.setenv("XLAC_CHECKED", text)
        again = xlac.jit(quotient.__wrapped__)  # type: ignore[attr-defined]
        for call in (lambda: xlac.compile(rows)(HIGH), lambda: again(seven, seven * 0)):  # noqa: B023
            if fails:
                with pytest.raises(xlac.CheckFailed):
                    call()
            else:
                call()
        assert xlac.compile(rows, checked=False)(HIGH).shape == (3, 4)


def test_kinds() -> None:
    assert kinds(True) == ("bounds", "division", "nan", "sizes") and kinds(False) == () == kinds(
        None
    )
    assert kinds("all") == tuple(CODES) and kinds("infinity, bounds") == ("bounds", "infinity")
    with pytest.raises(SourceError, match="there is no check 'bound'") as wrong:
        kinds(["bound"])
    assert wrong.value.diagnostics[0].code == "XL6025"


def test_every_way_to_call(rows: Path) -> None:
    model = xlac.compile(rows, checked=True)
    assert model.outputs == ("y",) and [slot.name for slot in model.program.outputs] == ["y"]
    wanted, out = model(LOW), np.empty((3, 4), np.float32)
    model.run({"ids": LOW}, {"y": out})
    assert (out == wanted).all() and model.at is not None
    out[:] = 0
    model.at([LOW.ctypes.data, out.ctypes.data])
    assert (out == wanted).all()
    for call in (
        lambda: model(HIGH),
        lambda: model(ids=HIGH),
        lambda: model.run({"ids": HIGH}, {"y": out}),
        lambda: model.at([HIGH.ctypes.data, out.ctypes.data]),
    ):
        with pytest.raises(xlac.CheckFailed):
            call()
    assert (model(LOW) == wanted).all()


def test_many_checks_of_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one record has room for together, and more than one pass looks for: the first is
    told.
    """
    monkeypatch.setattr("xlac.passes.checks.records.CONDITIONS_PER_REDUCTION", 5)
    monkeypatch.setattr("xlac.passes.checks.records.ROWS_PER_CONCAT", 3)

    @xlac.jit(checked=True)
    def chain(x: Any, at: Any) -> Any:
        for n in range(15):
            x = xlac.sqrt(x) + 1.0 - xlac.sum(x) * 0.0 if n % 4 == 3 else xlac.sqrt(x) + 1.0
        return x + xlac.log(at)

    ones = np.ones(5, np.float32)
    assert np.isfinite(chain(ones, ones)).all()
    for x, at, code in ((put(ones, 3, -1), ones, "sqrt"), (ones, put(ones, 1, -1), "log")):
        with pytest.raises(
            xlac.CheckFailed, match=f"result of {code}, .*at .{3 if code == 'sqrt' else 1}."
        ):
            chain(x, at)
