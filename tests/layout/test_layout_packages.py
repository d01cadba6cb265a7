"""Each distribution builds into a wheel that holds its package and nothing else, all of one
version.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = {
    ".": ("xlac", "toolchain/xlac"),
    "backend_sdk": ("xlac_sdk", "backend_sdk/xlac_sdk"),
    "runtime": ("xlac_runtime", "runtime/xlac_runtime"),
    "backends/reference": ("xlac_reference", "backends/reference/xlac_reference"),
    "backends/c": ("xlac_c", "backends/c/xlac_c"),
    "backends/cpu": ("xlac_cpu", "backends/cpu/xlac_cpu"),
    "backends/cuda": ("xlac_cuda", "backends/cuda/xlac_cuda"),
}


@pytest.mark.parametrize("folder", DISTRIBUTIONS)
@pytest.mark.sampled(4)
def test_wheel_holds_what_it_should(folder: str, tmp_path: Path) -> None:
    package, source = DISTRIBUTIONS[folder]
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
    ]
    subprocess.run([*command, str(ROOT / folder)], check=True, capture_output=True, timeout=1800)
    (wheel,) = tmp_path.glob("*.whl")
    version = (ROOT / "VERSION").read_text().strip()
    assert wheel.name.startswith(f"{package}-{version}-py3-none-any")
    with zipfile.ZipFile(wheel) as archive:
        found = {n for n in archive.namelist() if ".dist-info/" not in n}
    expected = {
        f"{package}/{p.relative_to(ROOT / source).as_posix()}"
        for p in (ROOT / source).rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    assert found == expected
    assert f"{package}/py.typed" in found


def test_versions_have_one_place() -> None:
    for folder in DISTRIBUTIONS:
        file = ROOT / folder / "VERSION"
        assert folder == "." or file.is_symlink(), f"{file} is a copy"
        assert file.read_text() == (ROOT / "VERSION").read_text()


def test_nothing_reads_the_environment_but_the_settings() -> None:
    """One file of the toolchain reads `os.environ`; the command's options name their variable."""
    readers = [
        p.relative_to(ROOT).as_posix()
        for p in (ROOT / "toolchain").rglob("*.py")
        if "os.environ" in p.read_text() or "getenv" in p.read_text()
    ]
    assert readers in ([], ["toolchain/xlac/settings.py"])


def test_arrows_go_one_way() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [lint], cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stdout
