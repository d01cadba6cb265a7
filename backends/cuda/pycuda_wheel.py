"""Builds a wheel of pycuda where `pip install pycuda` cannot: without a driver to link to, without
cuRAND, or with an nvcc wrapper.

    python backends/cuda/pycuda_wheel.py FOLDER

pycuda links to libcuda.so.1, which only machines with a GPU have: a stub library of that name with
the functions that its headers declare replaces it while linking. Needs g++, CUDA's headers and
setuptools; takes a minute.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "2026.1"
HEADERS = ("cuda.h", "cudaGL.h", "cudaProfiler.h")
DECLARED = re.compile(r"CUDAAPI\s+(cu[A-Z]\w*)\s*\(")
RENAMED = re.compile(r"#\s*define\s+cu[A-Z]\w*\s+(cu[A-Z]\w*)")
THREADED = re.compile(r"__CUDA_API_PT[SZ]+\((cu[A-Z]\w*)\)")


def toolkit() -> Path:
    """The folder of CUDA's toolkit, which has include/cuda.h."""
    places = [
        os.environ.get("CUDA_HOME", ""),
        os.environ.get("CUDA_PATH", ""),
        "/usr/local/cuda",
        "/usr",
    ]
    for place in places:
        if place and (Path(place) / "include" / "cuda.h").is_file():
            return Path(place)
    raise SystemExit("CUDA's headers are not here: set CUDA_HOME to the toolkit's folder")


def stub(headers: Path, folder: Path) -> None:
    """Makes a stub libcuda.so in a folder, with every function that the headers declare."""
    text = "".join((headers / name).read_text() for name in HEADERS if (headers / name).is_file())
    names = {*DECLARED.findall(text), *RENAMED.findall(text), *THREADED.findall(text)}
    source = folder / "stub.c"
    source.write_text(
        "".join(f"int {name}(void) {{ return 100; }}\n" for name in sorted(names)), encoding="utf-8"
    )
    flags = ["-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1"]
    subprocess.run(["gcc", *flags, "-o", str(folder / "libcuda.so"), str(source)], check=True)


def build(target: Path) -> None:
    """Leaves the wheel in a folder."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory(prefix="xlac-pycuda-") as build_folder:
        folder = Path(build_folder)
        subprocess.run(
            [
                *pip,
                "download",
                "-q",
                "--no-deps",
                "--no-binary",
                "pycuda",
                "-d",
                build_folder,
                f"pycuda=={VERSION}",
            ],
            check=True,
        )
        (archive,) = folder.glob("pycuda-*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        source = folder / archive.name.removesuffix(".tar.gz")
        root = toolkit()
        stub(root / "include", folder)
        settings = {
            "CUDA_ROOT": str(root),
            "CUDA_ENABLE_CURAND": False,
            "CUDADRV_LIB_DIR": [build_folder],
            "CXXFLAGS": ["-g0", "-w"],
            "LDFLAGS": ["-s", "-Wl,--no-as-needed"],
        }
        (source / "siteconf.py").write_text(
            "".join(f"{k} = {v!r}\n" for k, v in settings.items()), encoding="utf-8"
        )
        subprocess.run(
            [*pip, "wheel", "-q", "--no-deps", "-w", str(target.resolve()), str(source)], check=True
        )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    build(Path(sys.argv[1]))
