"""The peer suite end to end on a row of sixteen numbers: xlac beside contenders made of NumPy, a
run that is stopped and goes on, a budget that is too short, and the report.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from suite.contenders import AGAIN, CONTENDERS, OURS, Contender
from suite.loop import Run, Settings
from suite.machine import machine, slug
from suite.recorded import Recorded, compact
from suite.report import report
from suite.rows import CLASSES, Maker, Row, chosen, rows
from suite.samples import BURSTS, Samples, alone

ONNX = frozenset(("onnx",))
ROW = Row("relu", "memory-bound", ONNX, "nobody")


def contender(name: str, adapter: str = "fake", **options: str) -> Contender:
    """A contender that runs in this interpreter."""
    given = tuple(f"{key}={value}" for key, value in options.items())
    return Contender(name, "", adapter, ONNX, given, python=Path(sys.executable))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The row's folder."""
    onnx = pytest.importorskip("onnx")
    place = tmp_path_factory.mktemp("relu")
    x = np.linspace(-1, 1, 16, dtype=np.float32)
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [16]) for name in "xy"
    ]
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "relu", values[:1], values[1:])
    sets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=sets, ir_version=8), place / "model.onnx")
    np.savez(place / "inputs.npz", x=x)
    np.savez(place / "weights.npz")
    np.savez(place / "expected.npz", y=np.maximum(x, 0))
    meta = {"outputs": ["y"], "train": False, "flops": 16.0, "min_bytes": 128.0, "tolerance": 1e-6}
    (place / "meta.json").write_text(json.dumps(meta))
    return place


def run(
    work: Path, folder: Path, contenders: Mapping[str, Contender], **settings: Any
) -> tuple[Run, list[str]]:
    """A run over the one row, and what it said."""
    said: list[str] = []
    given = {"budget": 600.0, "rounds": 1, "seconds": 0.002, "say": said.append} | settings
    samples = Samples(work / "samples.jsonl")
    one = Run([ROW], [1], contenders, samples, Settings(work, work, **given), lambda _: folder)
    one.measure()
    return one, said


def test_xlac_and_others_are_measured_and_a_stopped_run_goes_on(
    tmp_path: Path, folder: Path
) -> None:
    contenders = {
        OURS: contender(OURS, "xlac"),
        "plain": contender("plain"),
        "wrong": contender("wrong", factor="2"),
        "unable": contender("unable", unsupported="1"),
    }
    first, said = run(tmp_path, folder, contenders)
    found = {p.contender: p for p in first.samples.processes.values()}
    assert len(first.samples.of("relu", 1, "wrong")) == 2  # what fails is tried again at the end
    for name in (OURS, "plain"):
        assert found[name].usable and len(found[name].bursts) >= BURSTS
        assert (
            found[name].ready["compile_cpu_seconds"] >= 0 and found[name].ready["peak_rss_mb"] > 1
        )
    assert found["wrong"].failure.startswith("wrong result: relative error 1")
    assert found["unable"].failure == "unsupported: Unsupported: as asked"
    assert len(said) == 2 and all("relu t1" in line for line in said)

    file = tmp_path / "samples.jsonl"
    assert Samples(file).processes == first.samples.processes
    lines = file.read_text().splitlines(keepends=True)
    bursts = [line for line in lines if '"burst"' in line and "plain" in line]
    kept = [line for line in lines if line not in bursts[BURSTS - 1 :]]
    file.write_text("".join(kept) + '{"kind": "bur')  # a kill -9
    again, said = run(tmp_path, folder, {n: c for n, c in contenders.items() if n != OURS})
    assert [p.contender for p in again.samples.processes.values()].count("plain") == 2
    assert len(again.samples.of("relu", 1, "plain")[-1].bursts) >= BURSTS
    assert len(again.samples.of("relu", 1, "unable")) == 1
    assert len(again.samples.of("relu", 1, "wrong")) == 2  # tried again, and no more
    more, said = run(tmp_path, folder, {"plain": contenders["plain"]})
    assert len(more.samples.processes) == len(again.samples.processes) and said == []


def test_a_peer_far_behind_is_measured_once(tmp_path: Path, folder: Path) -> None:
    contenders = {"quick": contender("quick"), "slow": contender("slow", wait="0.01")}
    found, _ = run(tmp_path, folder, contenders, rounds=2)
    assert [len(found.samples.of("relu", 1, name)) for name in contenders] == [2, 1]


def test_programs_are_kept_after_the_first_round(tmp_path: Path, folder: Path) -> None:
    """Its compile times are those of the process that found none."""
    ours = replace(contender(OURS, "xlac"), cache="XLAC_CACHE")
    found, _ = run(tmp_path, folder, {OURS: ours, "plain": contender("plain")}, rounds=2)
    for name, kept in ((OURS, [False, True]), ("plain", [False, False])):
        assert [p.ready["kept"] for p in found.samples.of("relu", 1, name)] == kept
    assert any((tmp_path / "cache").iterdir())


def test_what_the_budget_does_not_allow_is_said(tmp_path: Path, folder: Path) -> None:
    found, said = run(tmp_path, folder, {"plain": contender("plain")}, budget=1.0)
    assert found.skipped == ["round 0, the budget is spent: relu t1"]
    assert said == ["not run: round 0, the budget is spent: relu t1"]


def written(file: Path, times: Mapping[str, float], rounds: int = 6) -> Samples:
    """Samples of processes that nobody ran: seconds by contender, the same in each burst."""
    rng, samples = np.random.default_rng(0), Samples(file)
    for row, kind in (("matmul_256", 1.0), ("softmax", 2.0), ("bert", 3.0)):
        for number in range(rounds):
            for name, seconds in times.items():
                process = f"{row}|{name}|{number}"
                place = {"row": row, "threads": 1, "contender": name, "round": number}
                ready = {"compile_cpu_seconds": seconds, "peak_rss_mb": 10.0, "rel_error": 0.0}
                samples.add("begun", process=process, **place, ready=ready, failure="")
                for _ in range(BURSTS):
                    median = kind * seconds * (1 + 0.004 * rng.standard_normal())
                    samples.add("burst", process=process, median=median, foreign_cores=0.0)
    return samples


def reported(samples: Samples) -> list[str]:
    """The report of samples."""
    facts = {"machine": machine(), "skipped": ["of a cause"], "absent": ["iree: not installed"]}
    kinds = {row.name: row.kind for row in rows()}
    found = Recorded(samples, kinds, {}, facts)
    assert json.loads(json.dumps(compact(found)))["facts"]["skipped"] == ["of a cause"]
    return list(report(found))


def test_a_report_says_what_is_behind_and_by_class(tmp_path: Path) -> None:
    times = {OURS: 1.2, AGAIN: 1.2, "onnxruntime": 1.0, "openvino": 1.5}
    lines = reported(written(tmp_path / "s.jsonl", times))
    text = "\n".join(lines)
    assert machine()["processor"] in lines[0]
    assert lines[2].startswith("xlac beside itself passes: ")
    assert "3 behind, 0 inconclusive, 0 level, 0 ahead, of 3 rows" in text
    assert "| gemm | 1.2" in text and "| over classes without overhead | 1.2" in text
    assert "| matmul_256 t1 | 1." in text.partition("## Rows behind")[2]
    assert "- of a cause" in text and "- iree: not installed" in text
    assert "(0%, 18)" in text or "(1%, 18)" in text or "(2%, 18)" in text
    assert "not measured at all: mlp_small" in text


def test_a_run_in_which_xlac_differs_from_itself_is_void(tmp_path: Path) -> None:
    times = {OURS: 1.0, AGAIN: 1.2, "onnxruntime": 1.0}
    assert "**This run is void: xlac beside itself differs on 3 of 3" in "\n".join(
        reported(written(tmp_path / "s.jsonl", times))
    )


def test_rows_have_a_class_and_can_be_run_by_somebody() -> None:
    found = rows()
    names = [row.name for row in found]
    assert len(set(names)) == len(names)
    assert {row.kind for row in found} == set(CLASSES)
    assert sum(row.kind == "whole models" for row in found) >= 40
    integers = {row.what["of"] for row in found if row.kind == "int8"}
    assert len(integers) >= 10 and integers <= set(names)
    for row in found:
        able = [n for n, c in CONTENDERS.items() if c.usual and c.forms & row.forms]
        assert {OURS, AGAIN} <= set(able) and len(able) >= 4, row.name
    assert {row.kind for row in chosen(["gemm", "bert"])} == {"gemm", "whole models"}
    with pytest.raises(SystemExit, match="no row or class is called gem"):
        chosen(["gem"])


def test_a_row_is_made_again_when_its_definition_changes(tmp_path: Path) -> None:
    row = Row("r", "gemm", ONNX, "nobody", {"size": 1})
    maker = Maker(tmp_path)
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "made").write_text(row.digest)
    assert maker.is_made(row) and maker.folder(row) == tmp_path / "r"
    other = Row("r", "gemm", ONNX, "nobody", {"size": 2})
    assert not maker.is_made(other)
    with pytest.raises(RuntimeError, match="r was not written"):
        maker.folder(other)


def facts(lines: str, file: Path) -> Iterator[str]:
    """What is known of a processor by its description."""
    file.write_text(lines)
    found = machine(file)
    yield from (found["processor"], slug(found), *found["forms"])


def test_two_processors_have_two_names(tmp_path: Path) -> None:
    one = "model name : A (R) 9\ncpu family : 6\nmodel : 106\nflags : fma avx2 avx512_vnni\n"
    name, folder, *forms = facts(one, tmp_path / "cpuinfo")
    assert name == "A (R) 9" and folder.startswith("a-r-9-6-106-")
    assert forms == ["avx2", "fma", "avx512_vnni"]
    other = next(iter(list(facts(one.replace("106", "85"), tmp_path / "cpuinfo"))[1:]))
    assert other != folder


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(SystemExit, match="another run measures"), alone(tmp_path):
        pass
    with alone(tmp_path):
        pass
