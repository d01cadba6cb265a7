"""Every fuzz target takes its seeds, what was found before, and a few mutations; `make fuzz-inputs`
goes on from there.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from random import Random

import harness.fuzz
import harness.target
import numpy as np
import pytest
from harness.attempt import attempt, bounded
from harness.target import FOUND, Target, lacking, names, plain, seeds, target

from xlac.support.extras import needed

SEEDS, MUTATIONS = 12, 12


@pytest.mark.parametrize("name", names())
def test_a_target_takes_its_seeds_and_mutations(name: str) -> None:
    if why := lacking(name):
        pytest.skip(why)
    one, random = target(name), Random(name)
    taken = list(islice(seeds(name), len(list((FOUND / name).glob("*"))) + SEEDS))
    assert len(taken) >= 5
    for _ in range(MUTATIONS):
        data = random.choice(taken)
        made = one.mutate(data, random) if one.mutate and random.random() < 0.7 else None
        taken.append(plain(data, random) if made is None else made)
    findings = {found.key: found.text for data in taken if (found := attempt(one, data))}
    assert not findings, "\n\n".join(findings.values())


def wrong(data: bytes) -> None:
    match data:
        case b"key":
            raise KeyError("x")
        case b"assert":
            raise AssertionError
        case b"long":
            while True:
                with suppress(Exception):
                    sum(range(1000))
        case b"large":
            np.empty(1 << 30, np.int8)


@pytest.mark.parametrize("data", [b"key", b"assert", b"long", b"large"])
def test_what_is_no_error_of_ours_is_found(data: bytes) -> None:
    one = Target(wrong, list, seconds=0.1, memory=1 << 28)
    found = attempt(one, data)
    assert found is not None and found.data == data
    assert attempt(one, b"fine") is None


def test_bounds_end_with_the_input() -> None:
    with bounded(0.01, 1 << 28):
        pass
    start = time.process_time()
    while time.process_time() - start < 0.02:
        pass
    assert len(np.empty(1 << 29, np.int8)) == 1 << 29


@pytest.mark.parametrize("name", [name for name in names() if target(name).needs])
def test_a_target_without_its_packages_is_not_run_and_fails(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = harness.target.find_spec
    hidden = target(name).needs
    monkeypatch.setattr(
        harness.target, "find_spec", lambda found: None if found in hidden else real(found)
    )
    monkeypatch.setattr(sys, "argv", ["fuzz", "--targets", name, "--out", str(tmp_path / "out")])
    assert harness.fuzz.main() == 1
    assert capsys.readouterr().out.startswith(f"{name}: not run: it needs {hidden[0]}: pip install")
    assert not (tmp_path / "out").exists()


def test_a_reader_that_says_its_package_is_missing_is_a_finding() -> None:
    def read(data: bytes) -> None:
        with needed("a file of weights"):
            raise ModuleNotFoundError("No module named 'h5py'", name="h5py")

    found = attempt(Target(read, list), b"")
    assert found is not None and "XL7010" in found.key


def test_a_target_that_reaches_no_code_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that counts inputs and stays at two edges runs no reader."""

    def engine(_: object, log: Path, __: float) -> tuple[str, float]:
        log.write_text("#2\tINITED cov: 2 ft: 2 corp: 1/1b\n#1002719\tDONE cov: 2 ft: 2\n")
        time.sleep(1)
        return "", 0.5

    monkeypatch.setattr(harness.fuzz, "run", engine)
    report = harness.fuzz.fuzz("specs", 1, tmp_path)
    assert (report.executed, report.processor) == (1_002_719, 0.5)
    assert [*report.findings.values()] == ["it reached 2 edges, so its reader was not run"]


def test_how_an_engine_ends(tmp_path: Path) -> None:
    log = tmp_path / "log"
    ended, processor = harness.fuzz.run([sys.executable, "-c", "print(sum(range(9)))"], log, 60)
    assert not ended and processor > 0 and log.read_text() == "36\n"
    ended, _ = harness.fuzz.run([sys.executable, "-c", "raise SystemExit(7)"], log, 60)
    assert ended == "the process ended with 7"
    ended, _ = harness.fuzz.run([sys.executable, "-c", "import time; time.sleep(60)"], log, 0.2)
    assert ended.startswith("killed after 0 seconds")


def test_each_folder_of_findings_has_its_target() -> None:
    assert {folder.name for folder in Path(FOUND).iterdir() if folder.is_dir()} <= set(names())
