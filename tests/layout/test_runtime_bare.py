"""Artefacts run in an environment that has NumPy, xlac-runtime and what that asks for, and nothing
else.
"""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from email import message_from_string
from pathlib import Path

import numpy as np
import pytest

import xlac
from xlac.cli import root

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "specs"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheels of the runtime and of what it needs, and this
    one's NumPy.
    """
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    site = next((folder / "venv").glob("lib/python*/site-packages"))
    needed, found = ["xlac-runtime"], set[str]()
    homes = {"xlac-runtime": "runtime", "xlac-sdk": "backend_sdk"}
    while needed:
        name = needed.pop()
        if name in found:
            continue
        found.add(name)
        if name == "numpy":
            for part in Path(np.__file__).parents[1].glob("numpy*"):
                (site / part.name).symlink_to(part)
            continue
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            str(folder / name),
            str(ROOT / homes[name]),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=1800)
        (wheel,) = (folder / name).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
            told = next(n for n in archive.namelist() if n.endswith("METADATA"))
            asked = message_from_string(archive.read(told).decode()).get_all("Requires-Dist") or []
        needed += [
            text.split(";")[0].partition(">")[0].strip() for text in asked if "extra ==" not in text
        ]
    assert found == {"xlac-runtime", "xlac-sdk", "numpy"}
    return folder / "venv" / "bin" / "python"


RUN = """
import sys, numpy as np, xlac_runtime
model = xlac_runtime.load(sys.argv[1], copy_weights=len(sys.argv) > 3)
inputs = dict(np.load(sys.argv[2]))
y = model(**inputs)
out = {model.outputs[0]: np.empty_like(y)}
model.run(inputs, out)
assert np.array_equal(out[model.outputs[0]], y)
for wrong in ((), (y, y, y), (y.astype("f8"),)):
    try:
        model(*wrong)
    except xlac_runtime.SourceError as error:
        assert "XL600" in str(error)
    else:
        raise AssertionError(wrong)
import xlac_sdk
others = {"llvmlite", "pydantic", "jinja2", "ml_dtypes", "xlac"}
assert not others & {n.partition(".")[0] for n in sys.modules}
np.save(sys.argv[2] + ".npy", y)
"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "options",
    [
        ("--weights", "mmap"),
        ("--weights", "file"),
        ("--target", "c", "--emit", "so,h"),
        ("--dim", "batch=1..8"),
    ],
)
def test_an_artefact_runs_where_there_is_nothing_else(
    options: tuple[str, ...], bare: Path, tmp_path: Path
) -> None:
    fixed = () if "--dim" in options else ("--dim", "batch=4")
    root.main(
        ["build", str(SPECS / "digits.yaml"), "-o", str(tmp_path / "out"), *options, *fixed],
        standalone_mode=False,
    )
    image = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    np.savez(tmp_path / "in.npz", image=image)
    for more in ((), ("copy",)):
        command = [
            str(bare),
            "-I",
            "-c",
            RUN,
            str(tmp_path / "out"),
            str(tmp_path / "in.npz"),
            *more,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
        assert done.returncode == 0, done.stderr
        np.testing.assert_array_equal(
            np.load(tmp_path / "in.npz.npy"), xlac.load(tmp_path / "out")(image)
        )


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--target", "reference"), "XL5001"),
        (("--emit", "h,o"), "XL5011"),
        (("--triple", "aarch64-unknown-linux-gnu"), "XL5109"),
    ],
)
def test_what_cannot_run_there_says_so(
    options: tuple[str, ...], code: str, bare: Path, tmp_path: Path
) -> None:
    root.main(
        ["build", str(SPECS / "mlp_small.yaml"), "-o", str(tmp_path / "out"), *options],
        standalone_mode=False,
    )
    command = [
        str(bare),
        "-I",
        "-c",
        "import sys, xlac_runtime; xlac_runtime.load(sys.argv[1])",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 1 and code in done.stderr, done.stderr


def test_a_type_that_numpy_lacks_names_the_extra(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(
        "xlac: 1\nmodel: m\ninputs: {x: 'bf16[4]'}\ngraph: {y: x + x}\noutputs: [y]\n"
    )
    root.main(
        ["build", str(tmp_path / "m.yaml"), "-o", str(tmp_path / "out")], standalone_mode=False
    )
    command = [
        str(bare),
        "-I",
        "-c",
        "import sys, xlac_runtime; xlac_runtime.load(sys.argv[1])",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 1 and "xlac-runtime[bf16]" in done.stderr, done.stderr
