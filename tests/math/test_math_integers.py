"""Expansions of what integers have, against NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from math_harness import PLAIN, expanded

from xlac_sdk.conformance.values import arguments
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive as P
from xlac_sdk.kernel_ir.primitives import operand_dtypes


def test_dot_products_of_pairs() -> None:
    given = list(arguments(P.DOT2, operand_dtypes(P.DOT2, DType.I32), 64))
    given[0][:3] = given[1][:3] = [-0x7FFF8000, -0x80000000, 0x7FFF7FFF]
    halves = [[((a >> by & 0xFFFF) ^ 0x8000) - 0x8000 for by in (0, 16)] for a in given[:2]]
    wide = [[half.astype(np.int64) for half in pair] for pair in halves]
    total = given[2] + wide[0][0] * wide[1][0] + wide[0][1] * wide[1][1]
    np.testing.assert_array_equal(expanded(P.DOT2, given, PLAIN), total.astype(np.int32))


@pytest.mark.parametrize("spelled", [None, DType.U32, DType.I32])
@pytest.mark.parametrize("kind", [DType.U32, DType.I32])
def test_dot_products_of_bytes(kind: DType, spelled: DType | None) -> None:
    """Byte by byte, or by the form for bytes of the other sign."""
    given = list(arguments(P.DOT4, operand_dtypes(P.DOT4, kind), 64))
    lacks = {(P.DOT4, kind) for kind in (DType.U32, DType.I32) if kind is not spelled}
    spelled_too = PLAIN.primitives | {P.DOT4}
    target = replace(PLAIN, primitives=spelled_too, lacks=PLAIN.lacks | lacks)
    got = expanded(P.DOT4, given, target)
    x, y, total = (a.astype(np.int64) for a in given)
    for byte in (0, 8, 16, 24):
        low = (x >> byte) & 255
        signed = (((y >> byte) & 255) ^ 128) - 128
        total = total + (low if kind is DType.U32 else (low ^ 128) - 128) * signed
    np.testing.assert_array_equal(got, total.astype(np.int32))
