"""cuBLASLt by ctypes: every call typed and checked. Names and numbers are those of cublasLt.h in
CUDA 12 and 13.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

from xlac_cuda import toolkit
from xlac_cuda.device.errors import DeviceError
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, LimitError, UnsupportedError, XlacError

WHEELS = ("nvidia.cu13.lib", "nvidia.cublas.lib")  # the folder in NVIDIA's PyPI packages
LEAST = 12  # the first major version with the attributes used here

TYPES = {DType.F32: 0, DType.F16: 2, DType.BF16: 14}  # cudaDataType
COMPUTE_32F, COMPUTE_32F_FAST_TF32 = 68, 77
NOT_INITIALIZED, ALLOC_FAILED, NOT_SUPPORTED = 1, 3, 15  # cublasStatus_t
SPLITS_IN_F32 = 2  # CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: partial sums of a split product are f32


class Desc(IntEnum):
    """CUBLASLT_MATMUL_DESC_…"""

    TRANSA = 3
    TRANSB = 4
    EPILOGUE = 7
    BIAS_POINTER = 8
    BIAS_DATA_TYPE = 26


class CublasLayout(IntEnum):
    """CUBLASLT_MATRIX_LAYOUT_…"""

    BATCH_COUNT = 5
    STRIDED_BATCH_OFFSET = 6


class Preference(IntEnum):
    """CUBLASLT_MATMUL_PREF_…"""

    MAX_WORKSPACE_BYTES = 1
    REDUCTION_SCHEME_MASK = 3
    MIN_ALIGNMENT_A_BYTES = 5
    MIN_ALIGNMENT_B_BYTES = 6
    MIN_ALIGNMENT_C_BYTES = 7
    MIN_ALIGNMENT_D_BYTES = 8


class CublasEpilogue(IntEnum):
    """CUBLASLT_EPILOGUE_…; those with a bias add it before the activation."""

    DEFAULT = 1
    RELU = 2
    BIAS = 4
    RELU_BIAS = 6
    GELU = 32
    GELU_BIAS = 36


class CublasAlgorithm(ctypes.Structure):
    """cublasLtMatmulAlgo_t: opaque."""

    _fields_ = (("data", ctypes.c_uint64 * 8),)


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t"""

    _fields_ = (
        ("algorithm", CublasAlgorithm),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


# Parameters, a letter each: i int, z bytes or attribute sizes, h handle or address, u and l 64 bits
# without and with a sign
_TYPES = {
    "i": ctypes.c_int,
    "z": ctypes.c_size_t,
    "h": ctypes.c_void_p,
    "u": ctypes.c_uint64,
    "l": ctypes.c_int64,
}
SIGNATURES = {
    "cublasLtCreate": "h",
    "cublasLtDestroy": "h",
    "cublasLtMatmulDescCreate": "hii",
    "cublasLtMatmulDescDestroy": "h",
    "cublasLtMatmulDescSetAttribute": "hihz",
    "cublasLtMatrixLayoutCreate": "hiuul",
    "cublasLtMatrixLayoutDestroy": "h",
    "cublasLtMatrixLayoutSetAttribute": "hihz",
    "cublasLtMatmulPreferenceCreate": "h",
    "cublasLtMatmulPreferenceDestroy": "h",
    "cublasLtMatmulPreferenceSetAttribute": "hihz",
    "cublasLtMatmulAlgoGetHeuristic": "hhhhhhhihh",
    "cublasLtMatmul": "hhhhhhhhhhhhhhzh",
}


class CublasLt:
    """The library. `blas("cublasLtDestroy", handle)` calls it and raises the error of `failure` for
    a failure.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        library.cublasLtGetVersion.restype = ctypes.c_size_t
        library.cublasLtGetStatusName.restype = ctypes.c_char_p
        self.number = int(library.cublasLtGetVersion())
        self._name = library.cublasLtGetStatusName
        self.raw = {name: getattr(library, name) for name in SIGNATURES}
        for name, letters in SIGNATURES.items():
            self.raw[name].argtypes = [_TYPES[letter] for letter in letters]
            self.raw[name].restype = ctypes.c_int

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor: 13.10, say."""
        return self.number // 10_000, self.number % 10_000 // 100

    def __call__(self, call: str, *given: Any) -> None:
        status = self.raw[call](*given)
        if status:
            raise self.failure(call, status)

    def handle(self, call: str, *given: Any) -> int:
        """The handle that a call writes to its first parameter."""
        handle = ctypes.c_void_p()
        self(call, ctypes.addressof(handle), *given)
        return handle.value or 0

    def set(self, what: int, attribute: Desc | CublasLayout | Preference, value: Any) -> None:
        """Sets an attribute to a ctypes number."""
        of = {Desc: "MatmulDesc", CublasLayout: "MatrixLayout", Preference: "MatmulPreference"}[
            type(attribute)
        ]
        self(
            f"cublasLt{of}SetAttribute",
            what,
            attribute,
            ctypes.addressof(value),
            ctypes.sizeof(value),
        )

    def failure(self, call: str, status: int) -> XlacError:
        """The error for a nonzero status."""
        name = (self._name(status) or b"").decode(errors="replace") or str(status)
        if status == ALLOC_FAILED:
            return LimitError(
                Diagnostic(
                    "XL5214",
                    f"the GPU's memory is used up ({call}: {name})",
                    hint="nvidia-smi shows who uses it",
                )
            )
        if status == NOT_INITIALIZED:
            problem = f"cuBLASLt cannot use this GPU or its driver ({call}: {name})"
            return UnsupportedError(Diagnostic("XL5221", problem, hint=WITHOUT))
        if status == NOT_SUPPORTED:
            return UnsupportedError(
                Diagnostic(
                    "XL5222", f"cuBLASLt does not compute this ({call}: {name})", hint=WITHOUT
                )
            )
        return DeviceError(Diagnostic("XL5217", f"{call} failed: {name}"), 0)


WITHOUT = "an --arch without +cublaslt has kernels for everything"


@cache
def installed() -> CublasLt | None:
    """The library: from a Python package, an installed toolkit, or the system; None if there is
    none that is new enough.
    """
    return next((blas for blas in _loaded() if blas.version[0] >= LEAST), None)


def wanted() -> CublasLt:
    """The library, for a program that calls it. Raises UnsupportedError if there is none, or only
    an old one.
    """
    blas = installed()
    if blas is not None:
        return blas
    old = next(_loaded(), None)
    if old is not None:
        problem = (
            f"cuBLASLt {'.'.join(map(str, old.version))} is too old: the program calls that of "
            f"CUDA {LEAST} or later"
        )
        raise UnsupportedError(
            Diagnostic("XL5221", problem, hint=f"a newer nvidia-cublas; or {WITHOUT}")
        )
    problem = "the program calls cuBLASLt, which is not installed here (libcublasLt.so)"
    raise UnsupportedError(
        Diagnostic("XL5220", problem, hint=f"pip install nvidia-cublas; or {WITHOUT}")
    )


def _loaded() -> Iterator[CublasLt]:
    for file in _files():
        try:
            yield CublasLt(ctypes.CDLL(str(file)))
        except (OSError, AttributeError):
            continue


def _files() -> Iterator[Path]:
    return toolkit.files("cublasLt", WHEELS)
