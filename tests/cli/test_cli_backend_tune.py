"""`xlac backend tune`: what it keeps, writes and forgets; nothing is measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from xlac.cli.commands.backend import command, device_rows
from xlac.options import CompileOptions
from xlac.support import tuned_facts
from xlac_sdk.host.registry import find
from xlac_sdk.machine_facts import TUNABLE
from xlac_sdk.source import SourceError, XlacError
from xlac_sdk.target import Target
from xlac_sdk.tuning import tune as tuning
from xlac_sdk.tuning.tune import Tuning

FACTS = {"vector_bytes": 64, "l2_bytes": 1 << 20}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and a device whose facts are known."""
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tuning, "tune", lambda *given: Tuning(dict(FACTS), {"launch_us": 2}))
    return tmp_path


def tune(*arguments: str) -> str:
    """The output of the command."""
    given = ["tune", "opencl", "--arch", "generic-cpu", *arguments]
    result = CliRunner().invoke(command, given, catch_exceptions=False)
    return result.output


def width(options: CompileOptions) -> int:
    """The bytes of a vector of opencl's target."""
    return find("opencl").target(options.request).vector_bytes


def test_what_is_kept_is_loaded_until_forgotten(cache: Path) -> None:
    pytest.importorskip("xlac_opencl")
    plain = width(CompileOptions(arch="generic-cpu"))
    assert plain != 64 and "kept in" in tune()
    assert width(CompileOptions(arch="generic-cpu")) == 64
    assert width(CompileOptions(arch="generic-gpu")) == 0  # another device
    assert width(CompileOptions(arch="generic-cpu", facts=())) == plain  # as the user said
    shown = CliRunner().invoke(command, ["info", "opencl", "--arch", "generic-cpu"]).output
    assert "64 bytes" in shown and "1024 KiB" in shown
    assert "forgotten" in tune("--forget")
    assert width(CompileOptions(arch="generic-cpu")) == plain


def test_every_fact_that_is_tuned_is_shown() -> None:
    facts = {"warp": 16, "block_threads": 96, "access_bytes": 8, "thread_bytes": 4, "processors": 7}
    target = Target("any", warp=32, most_blocks=65, most_buffers=9).with_tuned(facts)
    rows = device_rows(target)
    assert all(re.search(rf"\b{value}\b", rows["gpu"]) for value in facts.values())
    assert rows["at most"] == "65 blocks, 9 buffers"
    shown = {"vector_bytes", "vector_registers", *facts}  # the others by rows of their own
    assert shown == set(TUNABLE)


def test_a_file_is_for_facts(cache: Path) -> None:
    pytest.importorskip("xlac_opencl")
    from xlac.cli.facts import facts_given

    file = cache / "facts.yaml"
    assert f"`xlac build --facts {file}` takes it" in tune("-o", str(file))
    assert not tuned_facts.tuned_facts()
    given = facts_given(str(file))
    assert dict(given) == FACTS
    assert width(CompileOptions(arch="generic-cpu", facts=given)) == 64
    with pytest.raises(SourceError, match="the cpu backend knows vector_bytes itself"):
        find("cpu").target(CompileOptions(facts=given).request)


def test_a_backend_that_measures_by_itself_is_refused(cache: Path) -> None:
    with pytest.raises(XlacError, match="takes no tuned facts"):
        CliRunner().invoke(command, ["tune", "cpu"], catch_exceptions=False)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"a": {"warp": 3}}', '{"a": {"speed": 1}}', '{"a": 1}']
)
def test_a_damaged_file_is_nothing(cache: Path, text: str) -> None:
    file = Path(str(tuned_facts.place()))
    file.parent.mkdir()
    file.write_text(text)
    assert tuned_facts.tuned_facts() == ()
    tuned_facts.keep("a", FACTS)
    assert tuned_facts.tuned_facts() == (("a", tuple(sorted(FACTS.items()))),)
    assert json.loads(file.read_text()) == {"a": FACTS}


def test_without_a_cache_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    pytest.importorskip("xlac_opencl")
    monkeypatch.setenv("XLAC_CACHE", "off")
    assert tuned_facts.tuned_facts() == ()
    with pytest.raises(SourceError, match="the cache is off"):
        tune()
