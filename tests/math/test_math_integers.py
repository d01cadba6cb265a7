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
