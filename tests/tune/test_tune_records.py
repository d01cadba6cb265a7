"""Tuned schedules as files: written, read, used for the same program, refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import xlac
from xlac.cli import status
from xlac.codegen.schedules.document import Asked, read, write
from xlac.codegen.schedules.schedule import Schedule
from xlac.codegen.schedules.tuned import TunedGroup, TuningRecords, machine_of
from xlac.driver import lower
from xlac.frontends.loader import load
from xlac_sdk.host.registry import find
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request

SPEC = """\
xlac: 1
model: product
inputs: {x: "f32[24, 64]", w: "f32[64, 48]"}
graph: {y: relu(matmul(x, w))}
outputs: [y]
"""
CPU = find("cpu").target(Request(cpu="x86-64-v3", triple="x86_64-unknown-linux-gnu"))


def source(asked: Asked | None, spec: Path) -> str:
    """The code of the model with some schedules."""
    lowered = lower(load(str(spec)), CPU, wanted=asked)
    return repr(find("cpu").emit(lowered.program, CPU))


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "product.yaml"
    file.write_text(SPEC)
    return file


@pytest.fixture
def tuned(spec: Path, tmp_path: Path) -> Path:
    """A file of the product's schedules with narrower tiles, and of a group of another model."""
    table = lower(load(str(spec)), CPU).schedules.table()
    ((name, (_, parts)),) = table.items()
    narrow: dict[str, Schedule] = dict(parts)
    main: Any = parts["main"]
    narrow["main"] = replace(main, tile=replace(main.tile, vectors=1))
    group = TunedGroup('dot: "y"', 10.0, 8.0, (1.2, 1.3), 40, True, narrow)
    records = TuningRecords(
        machine_of(CPU), {name: group, "g0": group, "g1": replace(group, parts={})}
    )
    file = tmp_path / "product.tuning.yaml"
    titles = {one: entry.what for one, entry in records.groups.items()}
    file.write_text(write(records.schedules(), titles, "Tuned", records))
    return file


def test_records_are_read_as_they_were_written(tuned: Path) -> None:
    records = read(tuned).tuned
    assert records is not None and dict(records.machine) == machine_of(CPU)
    titles = {one: entry.what for one, entry in records.groups.items()}
    assert write(records.schedules(), titles, "Tuned", records) == tuned.read_text()
    assert list(records.schedules()) == [n for n in records.groups if n != "g1"]


def test_replaying_gives_the_same_program(spec: Path, tuned: Path) -> None:
    """The same code each time, another than the compiler's; groups of other models are no error."""
    asked = read(tuned)
    assert source(asked, spec) == source(read(tuned), spec) != source(None, spec)
    only = Asked({k: v for k, v in asked.groups.items() if k != "g0"})
    assert source(asked, spec) == source(only, spec)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"threads": 4}, "threads was 1, and is 4"),
        ({"vector_bytes": 16, "fma": False}, "vector_bytes was 32, and is 16; fma was True"),
        ({"name": "c"}, "target was 'cpu', and is 'c'"),
    ],
)
def test_another_machine_is_refused(
    changes: dict[str, Any], said: str, spec: Path, tuned: Path
) -> None:
    with pytest.raises(SourceError, match="XL4114") as error:
        lower(load(str(spec)), replace(CPU, **changes), wanted=read(tuned))
    assert said in str(error.value) and "product.tuning.yaml:3:" in str(error.value)


def test_precision_is_part_of_the_machine(spec: Path, tuned: Path) -> None:
    with pytest.raises(SourceError, match="fast was False, and is True"):
        lower(load(str(spec), precision="fast"), CPU, wanted=read(tuned))


def test_other_caches_are_no_reason(spec: Path, tuned: Path) -> None:
    small = CPU.with_facts(l1_bytes=16 << 10)
    assert lower(load(str(spec)), small, wanted=read(tuned)).program.kernels


def _without(*path: str) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        del document[path[-1]]

    return change


def _with(value: Any, *path: str) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_without("tuned", "machine"), "a mapping of machine, groups and values"),
        (_without("tuned", "groups", "g0"), "groups lacks g0"),
        (_with(3, "tuned", "groups"), "must be mappings"),
        (_without("tuned", "groups", "g0", "what"), "it must be a mapping of what, default_us"),
        (_with("fast", "tuned", "groups", "g0", "tuned_us"), "must be numbers from 0"),
        (_with([1.0], "tuned", "groups", "g0", "faster"), "a list of two numbers"),
        (_with(1, "tuned", "groups", "g0", "finished"), "finished true or false"),
        (_with({}, "more"), "and nothing else"),
    ],
)
def test_a_damaged_file_is_refused(change: Callable[[Any], None], said: str, tuned: Path) -> None:
    yaml = YAML(typ="safe")
    document = yaml.load(tuned)
    change(document)
    with tuned.open("w") as file:
        yaml.dump(document, file)
    with pytest.raises(SourceError, match="XL4111") as error:
        read(tuned)
    assert said in str(error.value)


def test_a_schedule_that_no_longer_fits_is_refused_with_its_place(spec: Path, tuned: Path) -> None:
    tuned.write_text(tuned.read_text().replace("vectors: 1", "vectors: 9"))
    with pytest.raises(SourceError, match=r"tuning.yaml:\d+:\d+: error: the schedule of g\w+ main"):
        lower(load(str(spec)), CPU, wanted=read(tuned))


def test_a_model_is_tuned_and_built(spec: Path, tmp_path: Path) -> None:
    """A second of tuning on the command line gives a file that builds, and that Python takes."""
    import numpy as np

    file, out = tmp_path / "out.yaml", tmp_path / "built"
    assert status(["tune", str(spec), "--minutes", "0.01", "-o", str(file)]) == 0
    records = read(file).tuned
    assert records is not None and len(records.groups) == 1
    assert next(iter(records.groups.values())).measured > 0
    assert status(["build", str(spec), "--tuning", str(file), "-o", str(out)]) == 0
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape, np.float32) for shape in ((24, 64), (64, 48))]
    results = [xlac.compile(str(spec), schedules=s)(*given) for s in (str(file), None)]
    assert results[0].tobytes() == results[1].tobytes()


def test_a_file_that_is_no_result_of_tuning_is_not_overwritten(
    spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("schedules: {}\n")
    assert status(["tune", str(spec), "-o", str(file)]) == 2
    assert "has schedules that were not tuned" in capsys.readouterr().err
    assert file.read_text() == "schedules: {}\n"
