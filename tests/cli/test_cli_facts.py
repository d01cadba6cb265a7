"""`--facts`, what is kept of measurements, and keys that tell facts apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from xlac.cache.compilations import question
from xlac.cli import status
from xlac.cli.facts import facts_given
from xlac.options import CompileOptions, host_facts
from xlac.support import measure, measured_facts
from xlac_sdk.backend import Backend
from xlac_sdk.host.registry import find, installed
from xlac_sdk.machine.system_facts import system_facts
from xlac_sdk.machine_facts import LIMITS, TUNABLE
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request

SPEC = Path(__file__).parents[2] / "specs" / "digits.yaml"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def machine(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return dict(found["provenance"]["machines"][0])


def build(folder: Path, *more: str) -> dict[str, Any]:
    assert status(["build", str(SPEC), "--emit", "o", "-o", str(folder), *more]) == 0
    return machine(folder)


def test_what_is_measured_is_kept_until_it_is_replaced(cache: Path) -> None:
    assert measured_facts.kept() == ()
    measured_facts.keep({"l2_rate": 32.0, "l2_part": 0.5}, {})
    assert measured_facts.kept() == (("l2_part", 0.5), ("l2_rate", 32.0))
    assert CompileOptions().request.facts == measured_facts.kept()
    assert CompileOptions(cpu="haswell").request.facts == ()
    measured_facts.keep({"l2_rate": 16.0}, {})
    assert measured_facts.kept() == (("l2_rate", 16.0),)


def test_the_environment_asks_for_one_measurement(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []

    def measured(backend: Backend, tell: object) -> measure.Measurement:
        taken.append(backend.name)
        return measure.Measurement({}, {}, {"l2_rate": 32.0})

    monkeypatch.setattr(measure, "measure", measured)
    measure.measured_once.cache_clear()
    assert CompileOptions().request.facts == () == host_facts() and not taken
    monkeypatch.setenv("XLAC_MEASURE", "1")
    assert CompileOptions(cpu="haswell").request.facts == () and not taken
    wanted = (("l2_rate", 32.0),)
    assert CompileOptions().request.facts == wanted == measured_facts.kept()
    measure.measured_once.cache_clear()  # another process
    assert dict(facts_given("host"))["l2_rate"] == 32.0 and taken == ["cpu"]
    measured_facts.keep({}, {})  # nothing was steady: that is kept, too
    assert host_facts() == () and taken == ["cpu"]
    monkeypatch.setenv("XLAC_CACHE", "off")
    assert host_facts() == host_facts() == wanted and taken == ["cpu"] * 2
    measure.measured_once.cache_clear()


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        "{",
        '{"machine": "another", "facts": {"l2_rate": 2}}',
        '{"machine": "HERE", "facts": {"l2_rate": -1}}',
        '{"machine": "HERE", "facts": {"l2_size": 1}}',
        '{"machine": "HERE", "facts": {"l2_bytes": 4096}}',
        '{"machine": "HERE", "facts": 3}',
    ],
)
def test_what_is_damaged_or_of_another_machine_is_ignored(cache: Path, damage: str) -> None:
    measured_facts.keep({"l2_rate": 32.0}, {})
    (cache / measured_facts.FILE).write_text(damage.replace("HERE", measured_facts.machine()))
    assert measured_facts.kept() == ()


def test_keys_tell_measured_facts_apart(cache: Path) -> None:
    backend = find("cpu")
    before = question(SPEC, backend, CompileOptions())
    measured_facts.keep({"l2_rate": 32.0}, {})
    after = question(SPEC, backend, CompileOptions())
    assert before != after != question(SPEC, backend, CompileOptions(facts=(("l2_rate", 16.0),)))
    assert question(SPEC, backend, CompileOptions(facts=())) == before


def test_a_build_ignores_what_was_measured_unless_it_is_asked(cache: Path, tmp_path: Path) -> None:
    before = build(tmp_path / "a")
    measured_facts.keep({"l2_rate": 32.0}, {})
    assert build(tmp_path / "b") == before
    for file in ("digits.o", "manifest.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    host = build(tmp_path / "c", "--facts", "host")["hardware"]
    assert host == {**before["hardware"], "l2_rate": 32.0}
    (tmp_path / "facts.yaml").write_text("l2_rate: 8\nl3_bytes: 4194304\n")
    given = build(tmp_path / "d", "--cpu", "haswell", "--facts", str(tmp_path / "facts.yaml"))
    assert given["hardware"]["processor"] == "haswell"
    assert (given["hardware"]["l2_rate"], given["hardware"]["l3_bytes"]) == (8, 4 << 20)
    assert given["hardware_digest"] != before["hardware_digest"]


def test_the_hosts_facts_are_its_systems_and_the_measured(cache: Path) -> None:
    measured_facts.keep({"l2_rate": 32.0}, {})
    assert dict(facts_given("host")) == {**system_facts(), "l2_rate": 32.0}


def test_wrong_facts_are_pointed_at(tmp_path: Path) -> None:
    file = tmp_path / "facts.yaml"
    file.write_text("l2_rate: 8\nl2_size: 1048576\nl2_part: 2.0\n")
    with pytest.raises(SourceError) as error:
        facts_given(str(file))
    first, second = error.value.diagnostics
    assert "facts.yaml:2:1" in str(error.value) and "'l2_size' is not a fact" in first.message
    assert "l2_sharers" in first.hint or "l2_" in first.hint
    assert "facts.yaml:3:10" in str(error.value)
    assert second.message == "l2_part must be a number from 0.05 to 1, not 2.0"
    file.write_text("- 1\n")
    with pytest.raises(SourceError, match="it must be a mapping of facts by name"):
        facts_given(str(file))


@pytest.mark.parametrize("name", installed())
def test_no_backend_ignores_given_facts(name: str) -> None:
    arch = {"cuda": "sm_90a", "opencl": "generic-cpu"}.get(name, "")
    backend = find(name)
    target = backend.target(Request(arch=arch))
    for fact, limit in {**LIMITS, **TUNABLE}.items():
        value = next(
            v for v in (16, 2, 512, 0.5, "odd") if limit.holds(v) and v != target.fact(fact)
        )
        request = CompileOptions(arch=arch, facts=((fact, value),)).request
        try:
            made = backend.target_for(request)
        except SourceError as error:
            assert fact in str(error) and error.diagnostics[0].code == "XL5042"
        else:
            assert made.fact(fact) == value != target.fact(fact)
    taken = backend.target_for(CompileOptions(arch=arch, facts=(("l2_bytes", 12345),)).request)
    assert taken.l2_bytes == 12345


def test_measurements_are_no_given_facts(cache: Path) -> None:
    measured_facts.keep({"l2_rate": 31.5}, {})
    request = CompileOptions().request
    assert find("c").target_for(request).hardware.l2_rate != 31.5
    assert find("cpu").target_for(request).hardware.l2_rate == 31.5


def test_a_fact_that_a_backend_does_not_take_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "facts.yaml").write_text("warp: 8\nl1_bytes: 1024\n")
    given = ["--facts", str(tmp_path / "facts.yaml"), "-o", str(tmp_path / "out")]
    assert status(["build", str(SPEC), "--target", "c", *given]) != 0
    assert "the c backend takes no facts warp [XL5042]" in capsys.readouterr().err
