"""Makes expected.npz: what TensorFlow Lite's reference kernels give for every case. Needs the
package ai-edge-litert: `make test-tflite`.

    python tests/tflite/record.py           writes the file
    python tests/tflite/record.py --check   fails where the kernels give something else than it says
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from tflite_case import Case
from tflite_cases import cases

EXPECTED = Path(__file__).parent / "expected.npz"
ABSENT = {"BROADCAST_TO", "CALL", "CEIL", "ELU", "FAKE_QUANT_True", "ROUND", "SEGMENT_SUM"}
"""Cases whose operator LiteRT has in no version that these files ask for."""
OTHERS = {
    # the kernel leaves out the last channel of each window; TensorFlow and the others have it
    "LOCAL_RESPONSE_NORMALIZATION",
    # the kernel quantizes x at run time, to 8 bits; we multiply it as it is
    "FULLY_CONNECTED_dynamic",
    # LiteRT 2.3 reads these as uint8, which later versions do not
    "SUM_i8_False",
    "SUM_i8_True",
    "SUM_i16_False",
    "SUM_i16_True",
}
"""Cases in which we differ on purpose; test_tflite_operators.py compares them with NumPy."""


def given(case: Case) -> list[Any]:
    """What the reference kernels give for a case."""
    from ai_edge_litert import interpreter

    made = interpreter.Interpreter(
        model_content=case.file(),
        experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_REF,
    )
    made.allocate_tensors()
    for info, array in zip(made.get_input_details(), case.inputs(), strict=True):
        made.set_tensor(info["index"], array)
    found = []
    for _ in range(case.calls):
        made.invoke()
        found += [made.get_tensor(info["index"]) for info in made.get_output_details()]
    return found


def main() -> None:
    """Writes the file, or checks it."""
    found = {
        f"{case.name}/{number}": array
        for case in cases()
        if case.name not in ABSENT | OTHERS
        for number, array in enumerate(given(case))
    }
    if "--check" not in sys.argv:
        np.savez_compressed(EXPECTED, **found)
        return
    known = np.load(EXPECTED)
    assert sorted(known.files) == sorted(found), "cases were added or removed: record them"
    different = [name for name in found if not np.array_equal(known[name], found[name])]
    assert not different, f"the kernels give something else: {', '.join(different)}"
    print(f"{len(found)} results are as recorded")


if __name__ == "__main__":
    main()
