"""Instructions of a call of a model as C beside TensorFlow Lite for Microcontrollers' reference
kernels: `python bench/micro.py MODEL.tflite…`, models of one input and one output of known sizes.
Needs valgrind, a C compiler, and `pip install tflite-micro`.

The model as C is a program that calls it once, or more often: the difference is exact. Of the peer,
callgrind counts inside the function that runs a model, and nothing of Python.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

CALLS = 2
INVOKE = "tflite::micro::MicroInterpreter::Invoke()"
FLAGS = (("-O2",), ("-O3",))
"""Of the C compiler, for any x86-64 as the peer's wheel is."""


def collected(command: Sequence[str], *options: str) -> int:
    """Instructions that callgrind counts in a command."""
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *options]
    text = subprocess.run([*tool, *command], stderr=subprocess.PIPE, text=True, check=True).stderr
    return int(re.findall(r"Collected : (\d+)", text)[-1])


def peer(file: str, inputs: str, result: str, calls: str) -> None:
    """Runs a model by the peer, and saves its result."""
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_file(file)
    for _ in range(int(calls)):
        interpreter.set_input(np.load(inputs), 0)  # a call may overwrite it
        interpreter.invoke()
    np.save(result, interpreter.get_output(0))


MAIN = """#include "{name}.h"
#include <stdio.h>
#include <stdlib.h>
static union {{ unsigned char bytes[{upper}_MEMORY_BYTES + 1]; int64_t aligned; }} memory;
static {taken} x[{count_x}];
static {given} y[{count_y}];
int main(int argc, char **argv)
{{
    {name}_context context;
    int calls = atoi(argv[1]), status = {name}_init(&context, memory.bytes, sizeof memory.bytes);
    if (argc != 4 || !freopen(argv[2], "rb", stdin) || !freopen(argv[3], "wb", stdout)) return 1;
    if (fread(x, sizeof x, 1, stdin) != 1) return 1;
    for (int n = 0; n < calls && !status; ++n) status = {name}_run(&context, x, y);
    return status || fwrite(y, sizeof y, 1, stdout) != 1;
}}
"""


def program(file: Path, flags: Sequence[str], folder: Path, x: np.ndarray, y: np.ndarray) -> Path:
    """A program that runs a model as C."""
    xlac = Path(sys.executable).with_name("xlac")
    build = [str(xlac), "build", str(file), "--dim", "batch=1", "--target", "c", "-o", str(folder)]
    subprocess.run(build, check=True, capture_output=True)
    (source,) = (each for each in folder.glob("*.c") if each.name != "main.c")
    name = source.stem
    types = [f"{each.dtype}_t" if each.dtype.kind in "iu" else "float" for each in (x, y)]
    text = MAIN.format(
        name=name,
        upper=name.upper(),
        taken=types[0],
        given=types[1],
        count_x=x.size,
        count_y=y.size,
    )
    (folder / "main.c").write_text(text, encoding="utf-8")
    built = folder / "run"
    files = [str(source), str(folder / "main.c")]
    subprocess.run(["cc", "-std=c99", *flags, *files, "-lm", "-o", str(built)], check=True)
    return built


def row(file: Path) -> str:
    """The line of a model in the table. Results must be equal."""
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_file(str(file))
    taken = interpreter.get_input_details(0)
    random = np.random.default_rng(0)
    drawn = random.standard_normal(taken["shape"])
    whole = np.issubdtype(taken["dtype"], np.integer)
    x = (drawn * 40 if whole else drawn).astype(taken["dtype"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "x.npy", x)
        x.tofile(folder / "x")
        child = [sys.executable, __file__, "peer", str(file), str(folder / "x.npy")]
        option = f"--toggle-collect={INVOKE}"
        per_call = collected([*child, str(folder / "y.npy"), str(CALLS)], option) / CALLS
        theirs = np.load(folder / "y.npy")
        cells, far = [], 0.0
        for flags in FLAGS:
            run = program(file, flags, folder / "c", x, theirs)
            one, more = (
                collected([str(run), str(calls), str(folder / "x"), str(folder / "y")])
                for calls in (1, 1 + CALLS)
            )
            count = (more - one) / CALLS
            cells.append(f"{count:,.0f} | {count / per_call:.2f}")
            found = np.fromfile(folder / "y", theirs.dtype).reshape(theirs.shape)
            far = max(far, float(np.abs(found.astype(float) - theirs.astype(float)).max()))
    return f"| {file.stem} | {per_call:,.0f} | {' | '.join(cells)} | {far:g} |"


def main() -> None:
    """Prints the table, or is the child that runs one engine."""
    if sys.argv[1] == "peer":
        peer(*sys.argv[2:])
        return
    heads = " | ".join(f"xlac {' '.join(flags)} | ratio" for flags in FLAGS)
    print(f"| model | TFLite Micro | {heads} | apart |\n|{'---|' * (3 + 2 * len(FLAGS))}")
    for name in sys.argv[1:]:
        print(row(Path(name)), flush=True)


if __name__ == "__main__":
    main()
