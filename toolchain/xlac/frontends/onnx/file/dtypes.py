"""ONNX's element types (onnx.proto, TensorProto.DataType) as ours."""

from __future__ import annotations

from xlac_sdk.dtypes import DType

DTYPES: dict[int, DType] = {
    1: DType.F32, 2: DType.U8, 3: DType.I8, 4: DType.U16, 5: DType.I16, 6: DType.I32, 7: DType.I64,
    9: DType.BOOL, 10: DType.F16, 11: DType.F64, 12: DType.U32, 13: DType.U64, 16: DType.BF16,
}  # fmt: skip

CODED: dict[int, tuple[str, DType]] = {
    17: ("float8e4m3fn", DType.U8), 18: ("float8e4m3fnuz", DType.U8), 19: ("float8e5m2", DType.U8),
    20: ("float8e5m2fnuz", DType.U8), 21: ("uint4", DType.U8), 22: ("int4", DType.I8),
    23: ("float4e2m1", DType.U8), 24: ("float8e8m0", DType.U8), 25: ("uint2", DType.U8),
    26: ("int2", DType.I8),
}  # fmt: skip
"""Types whose elements are stored as codes, one in each u8 or i8."""

LISTED = {1: "float_data", 7: "int64_data", 11: "double_data", 12: "uint64_data", 13: "uint64_data"}
"""The fields of a TensorProto that list elements of a type one by one; those of all other types are
in `int32_data`.
"""

NAMES = {8: "string", 14: "complex64", 15: "complex128"}
"""Element types that xlac does not support."""
