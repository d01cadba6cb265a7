"""The quick function of a program beside the same as a vectorcall type of Python's limited API
(`model.c`), in nanoseconds: `python bench/limited_api/run.py`. Needs CPython 3.12, its headers and
a C compiler. bench/CALLS.md has the figures.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sysconfig
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import xlac
from xlac_cpu.run import numpy_layout

SPEC = """\
xlac: 1
model: sum_of_two
inputs: {x: 'f32[2, 4]', z: 'f32[2, 4]'}
graph:
  y: x + z
outputs: [y]
"""
ROUNDS, TIMES = 60, 3000


def extension(folder: Path) -> Any:
    """The module of model.c, compiled."""
    library = folder / "model.abi3.so"
    include = sysconfig.get_paths()["include"]
    source = Path(__file__).with_name("model.c")
    flags = ["-O2", "-shared", "-fPIC", f"-I{include}"]
    subprocess.run(["cc", *flags, source, "-o", library], check=True)
    spec = importlib.util.spec_from_file_location("model", library)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def best(contenders: dict[str, Callable[..., Any]], x: Any) -> dict[str, float]:
    """Nanoseconds of a call of each, in the best of interleaved runs."""
    least = dict.fromkeys(contenders, float("inf"))
    for _ in range(ROUNDS):
        for name, function in contenders.items():
            timer = timeit.Timer(lambda function=function: function(x, x))  # type: ignore[misc]
            least[name] = min(least[name], timer.timeit(TIMES) / TIMES * 1e9)
    return least


def main() -> None:
    """Checks that all compute the same, and prints what a call of each costs."""
    x, dtype, shape = np.ones((2, 4), np.float32), np.dtype(np.float32), (2, 4)
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder, "sum.yaml")
        spec.write_text(SPEC)
        model = xlac.compile(spec)
        for _ in range(TIMES):  # the quick function is made after some calls
            model(x, x)
        make = extension(Path(folder)).make
        allocate = numpy_layout.c_functions()[numpy_layout.NEW_FROM_DESCR]
        rest = (id(np.ndarray), id(dtype), np.empty, shape, dtype)
        contenders = {
            "the quick function": model.executable.fast,
            "limited API, NumPy's table": make(int(allocate or 0), *rest),
            "limited API alone": make(0, *rest),
            "numpy.add": np.add,
        }
        for function in contenders.values():
            assert (function(x, x) == 2).all()
        for name, nanoseconds in best(contenders, x).items():
            print(f"{name:30} {nanoseconds:6.0f}")


if __name__ == "__main__":
    main()
