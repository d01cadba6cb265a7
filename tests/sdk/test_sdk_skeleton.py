"""New backends, the runner under them, and plug-ins that do not work."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import get_args

import numpy as np
import pytest
from click.testing import CliRunner

from xlac_sdk.conformance import cases, check
from xlac_sdk.conformance.steps import chain, newton, state
from xlac_sdk.host import registry
from xlac_sdk.host.registry import find, installed
from xlac_sdk.host.runner import Runner
from xlac_sdk.kernel_ir.kernel import Expr, Stmt
from xlac_sdk.kernel_ir.primitives import MANDATORY, Primitive
from xlac_sdk.skeleton import create
from xlac_sdk.source import LimitError, SourceError, UnsupportedError
from xlac_sdk.target import Request

WORDS = {9: "nine", 10: "ten", 11: "eleven", 12: "twelve"}


def test_the_counts_of_the_docs_are_right() -> None:
    root = Path(__file__).parents[2]
    terms = f"{WORDS[len(get_args(Expr))]} expressions, {WORDS[len(get_args(Stmt))]} statements"
    numbers = f"{len(Primitive)} scalar operations, {len(MANDATORY)} of them mandatory"
    chapter = (root / "backend_sdk" / "README.md").read_text()
    assert terms in chapter and numbers in chapter
    assert terms in (root / "docs" / "design" / "codegen.md").read_text().lower()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """A generated backend, imported from where it was written."""
    folder = tmp_path_factory.mktemp("new")
    create("newborn", folder)
    sys.path.insert(0, str(folder / "xlac-newborn"))
    yield importlib.import_module("xlac_newborn")
    sys.path.remove(str(folder / "xlac-newborn"))


def test_a_new_backend_conforms_as_generated(package: ModuleType) -> None:
    backend = package.BACKEND
    target = backend.target(Request())
    # the rest passes too, in half a minute: `xlac backend test` runs everything
    chosen = {
        "statements",
        "steps",
        "vectors",
        "constants",
        "add",
        "div",
        "exp",
        "tanh",
        "shr",
        "select",
        "min",
    }
    wrong = [
        f"{o.case}: {o.detail}"
        for case in cases(target)
        if case.group in chosen
        for o in check(case, backend, target)
        if o.status != "passed"
    ]
    assert not wrong, "\n".join(wrong)


def test_a_new_backend_is_an_installable_project(package: ModuleType) -> None:
    import tomllib

    folder = Path(str(package.__file__)).parent.parent
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["xlac.backends"] == {
        "newborn": "xlac_newborn:BACKEND"
    }
    assert project["project"]["name"] == "xlac-newborn"
    for file in folder.rglob("*.py"):
        compile(file.read_text(), str(file), "exec")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Demo",
        "1a",
        "a-b",
        "class",
        "match",
        "cpu",
        "sdk",
        "../x",
        "a b",
        "é",
        "x" * 50,
        "{{ x }}",
    ],
)
def test_a_bad_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="XL5011"):
        create(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    create("twice", tmp_path)
    with pytest.raises(SourceError, match="exists already"):
        create("twice", tmp_path)


# ---- the runner ------------------------------------------------------------------------------


def test_the_runner_frees_everything(package: ModuleType) -> None:
    device = importlib.import_module("xlac_newborn.device").HostDevice()
    case = newton()
    runner = Runner(device, case.program)
    assert device._blocks
    out = {"y": np.empty(6, "f4")}
    runner.run(case.inputs, out)
    np.testing.assert_allclose(out["y"], np.sqrt(np.arange(1, 7)), rtol=1e-6)
    runner.close()
    runner.close()
    assert not device._blocks
    with pytest.raises(RuntimeError, match="is closed"):
        runner.run(case.inputs, out)
    del runner


def test_a_collected_runner_frees_too(package: ModuleType) -> None:
    device = importlib.import_module("xlac_newborn.device").HostDevice()
    Runner(device, chain().program)
    assert not device._blocks


def test_a_failing_load_frees_what_it_took(
    package: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = importlib.import_module("xlac_newborn.device").HostDevice()
    alloc, calls = device.alloc, []

    def scarce(nbytes: int) -> int:
        calls.append(nbytes)
        if len(calls) == 3:
            raise LimitError()
        return int(alloc(nbytes))

    monkeypatch.setattr(device, "alloc", scarce)
    with pytest.raises(LimitError):
        Runner(device, chain().program)
    assert not device._blocks


def test_state_is_each_runners_own(package: ModuleType) -> None:
    device = importlib.import_module("xlac_newborn.device").HostDevice()
    case = state()
    one, two = Runner(device, case.program), Runner(device, case.program)
    out = {"y": np.empty(6, "f4")}
    for _ in range(3):
        one.run(case.inputs, out)
    two.run(case.inputs, out)
    np.testing.assert_array_equal(out["y"], case.inputs["x"])
    one.reset()
    one.run(case.inputs, out)
    np.testing.assert_array_equal(out["y"], case.inputs["x"])


# ---- plug-ins that do not work ---------------------------------------------------------------


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two installed plug-ins: one that does not import, one that is no backend."""
    (tmp_path / "xlac_crash.py").write_text("raise RuntimeError('its driver is missing')\n")
    (tmp_path / "xlac_odd.py").write_text("BACKEND = 42\n")
    for name in ("crash", "odd"):
        info = tmp_path / f"xlac_{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: xlac-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[xlac.backends]\n{name} = xlac_{name}:BACKEND\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # of the processes that try backends


def test_a_broken_plug_in_is_reported_and_harmless(broken: None) -> None:
    from xlac.cli.commands.backend import command

    result = CliRunner().invoke(command, ["list"], terminal_width=200)
    text = " ".join(result.output.split())
    assert result.exit_code == 0
    assert "its driver is missing" in text and "reference 32768 bits" in text
    assert find("reference").name == "reference"
    with pytest.raises(
        UnsupportedError, match="cannot be loaded: RuntimeError: its driver is missing"
    ):
        find("crash")
    with pytest.raises(UnsupportedError, match="is a int, not an xlac_sdk Backend"):
        find("odd")


def test_backends_are_found_as_importlib_finds_them() -> None:
    points = {point.name: point.value for point in entry_points(group=registry.GROUP)}
    assert {name: registry._declared(name) for name in installed()} == points
    assert {name: registry._found(name) for name in installed()} == points


def test_a_backend_that_is_installed_in_an_older_way_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "xlac_old.py").write_text("class Holder:\n    from xlac_reference import BACKEND\n")
    info = tmp_path / "xlac_old.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: xlac-old\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[other]\nold = nothing:AT_ALL\n[xlac.backends]\nold = xlac_old:Holder.BACKEND [extra]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # of the processes that try backends
    assert find("old").name == "reference"


def test_an_unknown_backend_has_a_suggestion() -> None:
    with pytest.raises(SourceError, match="did you mean 'reference'"):
        find("referense")


def test_the_command_tests_a_backend(tmp_path: Path) -> None:
    from xlac.cli.commands.backend import command

    page = tmp_path / "report.html"
    result = CliRunner().invoke(
        command, ["test", "reference", "--kernels", "--only", "add", "--html", str(page)]
    )
    assert result.exit_code == 0 and "20 passed, 0 failed" in " ".join(result.output.split())
    assert "Conformance of" in page.read_text()
