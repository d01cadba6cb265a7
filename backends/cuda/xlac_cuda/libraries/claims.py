"""The operations that NVIDIA's libraries may compute, and the sizes from which a call pays.

bench/gpu/NOTES.md has the reasons; the thresholds have not been measured on any GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac_sdk.dtypes import DType
from xlac_sdk.libraries.attention import Attentions
from xlac_sdk.libraries.product import GELU, RELU, Products
from xlac_sdk.source import Diagnostic, SourceError

BLAS, DNN = "cublaslt", "cudnn"  # features: sm_90a+cublaslt+cudnn
HOPPER = 90
F32, HALVES = DType.F32, (DType.F16, DType.BF16)
# bytes of cuBLASLt's workspace, on Hopper and later or before: NVIDIA's recommendation
WORKSPACE = {True: 32 << 20, False: 4 << 20}

LEAST = 64  # rows, columns and depth of a product: below, the library's tiles are mostly empty
FLOPS = {F32: 1 << 28, DType.F16: 1 << 31, DType.BF16: 1 << 31}
"""2 * 512^3 and 2 * 1024^3: about 5 us of an H100 or H200."""
# the same time at the rates of that type
AMPERE = {F32: 1 << 27, DType.F16: 1 << 30, DType.BF16: 1 << 30}

CHANNELS = 16  # channels and filters of a group: below, tensor cores multiply zeros
CONVOLUTIONS = {F32: 1 << 29, DType.F16: 1 << 30, DType.BF16: 1 << 30}
"""3 us at the rates that convolutions reach: 180 TF/s of tf32, 350 of 16-bit floats; f32
convolutions pay as tf32 only.
"""
SPACE = 64 << 20  # bytes of workspace, into which the library transposes other layouts

# query rows that share keys; below, generated kernels already read keys only once
QUERIES = 64
ATTENTION = 1 << 30  # flops: 2 us at 500 TF/s
WIDEST = 128


@dataclass(frozen=True, slots=True)
class Claims:
    """The library operations that schedules may use."""

    products: frozenset[Products] = frozenset()
    convolutions: frozenset[Products] = frozenset()
    attentions: frozenset[Attentions] = frozenset()


def claims(features: Sequence[str], capability: int, at_once: bool) -> Claims:
    """The operations of the features in `--arch sm_90a+cublaslt+cudnn`, or, if the program runs
    `at_once` on this machine's GPU, of the installed libraries. Raises SourceError for another
    feature.
    """
    for name in features:
        if name not in (BLAS, DNN):
            problem = f"the cuda backend has no feature '{name}'"
            raise SourceError(Diagnostic("XL5201", problem, hint=f"--arch sm_90a+{BLAS}+{DNN}"))
    if not features and at_once:
        return _installed(capability)
    return described(
        capability, blas=BLAS in features, dnn=DNN in features, attends=DNN in features
    )


def _installed(capability: int) -> Claims:
    # imported here, as the bindings are needed only to query installed libraries
    from xlac_cuda.libraries import cublaslt, cudnn, cudnn_calls

    dnn = cudnn.installed()
    attends = dnn is not None and dnn.version >= cudnn_calls.ATTENTION
    return described(
        capability, blas=cublaslt.installed() is not None, dnn=dnn is not None, attends=attends
    )


def described(
    capability: int, *, blas: bool = True, dnn: bool = True, attends: bool = True
) -> Claims:
    """The operations that the libraries support on GPUs of a compute capability, such as 90."""
    hopper = capability >= HOPPER
    return Claims(
        frozenset(_products(dtype, hopper) for dtype in FLOPS if blas),
        frozenset(_convolutions(dtype) for dtype in CONVOLUTIONS if dnn),
        frozenset(
            Attentions("cuDNN", dtype, WIDEST, QUERIES, ATTENTION, SPACE)
            for dtype in HALVES
            if attends
        ),
    )


def _products(dtype: DType, hopper: bool) -> Products:
    least = (FLOPS if hopper else AMPERE)[dtype]
    return Products(
        "cuBLASLt",
        dtype,
        frozenset({dtype, F32}),
        frozenset({RELU, GELU}),
        LEAST,
        least,
        WORKSPACE[hopper],
    )


def _convolutions(dtype: DType) -> Products:
    """Its relu propagates NaN, as xlac's does."""
    ends, exact = frozenset({RELU, GELU}), frozenset({RELU})
    return Products(
        "cuDNN",
        dtype,
        frozenset({dtype}),
        ends,
        CHANNELS,
        CONVOLUTIONS[dtype],
        SPACE,
        exact,
        wide=True,
        rounds=dtype is F32,
    )
