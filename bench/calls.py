"""What a call of a tiny model costs through each interface, in ns: `python bench/calls.py`.
CALLS.md has the figures, and what was decided by them.
"""

from __future__ import annotations

import ctypes
import json
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path

import numpy as np

import xlac
from xlac_cpu.llvm import link, objects
from xlac_cpu.llvm.host import host
from xlac_cpu.run import fastcall

SPEC = """\
xlac: 1
model: sum_of_two
inputs: {x: 'f32[2, 4]', z: 'f32[2, 4]'}
graph:
  y: x + z
outputs: [y]
"""
# a function without assumptions about arrays would request the buffer of each, and release it
BUFFER = """
declare i32 @PyObject_GetBuffer(ptr, ptr, i32)
declare void @PyBuffer_Release(ptr)
define void @ask(ptr %array, i64 %times, i32 %flags) {
entry:
  %view = alloca [80 x i8], align 8
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %failed = call i32 @PyObject_GetBuffer(ptr %array, ptr %view, i32 %flags)
  call void @PyBuffer_Release(ptr %view)
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %times
  br i1 %more, label %next, label %end
end:
  ret void
}
"""
TIMES = 10_000
STRIDES, FORMAT = 0x0018, 0x0004  # PyBUF_STRIDES, PyBUF_FORMAT


def best(what: Callable[[], object], times: int = TIMES) -> float:
    """Nanoseconds of a call, in the best of nine runs."""
    return min(timeit.repeat(what, number=times, repeat=9)) / times * 1e9


def buffer_of(array: object) -> float:
    """Nanoseconds that the buffer protocol takes of an array, with its format."""
    head = (
        f'; xlac {json.dumps(host().settings, sort_keys=True)}\ntarget triple = "{host().triple}"\n'
    )
    _library, addresses = link.load([objects.object_code(head + BUFFER)], ("ask",))
    ask = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_int64, ctypes.c_int)(addresses["ask"])
    return best(lambda: ask(array, TIMES, STRIDES | FORMAT), 1) / TIMES


def main() -> None:
    """Prints the seconds of a call through each interface."""
    x = np.ones((2, 4), np.float32)
    inputs, outputs = {"x": x, "z": x}, {"y": np.empty((2, 4), np.float32)}
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder, "sum.yaml")
        spec.write_text(SPEC)
        model = xlac.compile(spec)
        print(f"the model, by the quick function   {best(lambda: model(x, x)):8.0f}")
        quick = model.executable.fast  # made after some calls
        print(f"the quick function alone           {best(lambda: quick(x, x)):8.0f}")
        into = best(lambda: model.run(inputs, outputs))
        print(f"the model, into a given array      {into:8.0f}")
        print(f"numpy.add                          {best(lambda: np.add(x, x)):8.0f}")
        ran = best(lambda: model.executable.run(inputs, outputs), 1000)
        print(f"the executable, by ctypes          {ran:8.0f}")
        print(f"a buffer, of each array            {buffer_of(x):8.0f}")
        fastcall.supported = lambda: False
        other = xlac.compile(spec, threads=2)  # not the one above, which is kept
        print(f"the model, by ctypes               {best(lambda: other(x, x), 1000):8.0f}")


if __name__ == "__main__":
    main()
