"""What is NVIDIA's libraries', where their calls are wanted, and the sizes from which one is worth
it.

bench/gpu/NOTES.md has the reasons; no GPU has measured them.
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
# bytes, on Hopper and later or before: what NVIDIA recommends for cuBLASLt
WORKSPACE = {True: 32 << 20, False: 4 << 20}

LEAST = 64  # rows, columns and depth of a product: below, tiles of the library are mostly empty
FLOPS = {F32: 1 << 28, DType.F16: 1 << 31, DType.BF16: 1 << 31}
"""2 * 512^3 and 2 * 1024^3: about 5 us of an H100 or H200."""
AMPERE = {F32: 1 << 27, DType.F16: 1 << 30, DType.BF16: 1 << 30}  # the same time at its rates

CHANNELS = 16  # and filters of a group: below, tensor cores multiply zeros
CONVOLUTIONS = {F32: 1 << 29, DType.F16: 1 << 30, DType.BF16: 1 << 30}
"""3 us at the rates that convolutions reach: 180 TF/s of tf32, 350 of halves; those of f32 are
worth it as tf32 only.
"""
SPACE = 64 << 20  # bytes: where layouts are not the library's own it transposes into its workspace

# that share keys; below, keys are read once by generated kernels, which is all there is to gain
QUERIES = 64
ATTENTION = 1 << 30  # flops: 2 us at 500 TF/s
WIDEST = 128


@dataclass(frozen=True, slots=True)
class Claims:
    """What schedules may ask libraries for."""

    products: frozenset[Products] = frozenset()
    convolutions: frozenset[Products] = frozenset()
    attentions: frozenset[Attentions] = frozenset()


def claims(features: Sequence[str], capability: int, at_once: bool) -> Claims:
    """What `--arch sm_90a+cublaslt+cudnn` names, or, where the program runs `at_once` on this
    machine's GPU, what is installed. Raises SourceError for another feature."""
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
    # what calls the libraries is imported where they may be here only
    from xlac_cuda.libraries import cublaslt, cudnn, cudnn_calls

    dnn = cudnn.found()
    attends = dnn is not None and dnn.version >= cudnn_calls.ATTENTION
    return described(
        capability, blas=cublaslt.found() is not None, dnn=dnn is not None, attends=attends
    )


def described(
    capability: int, *, blas: bool = True, dnn: bool = True, attends: bool = True
) -> Claims:
    """What the libraries compute on GPUs of a compute capability: 90, say."""
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
    """Its relu keeps NaN, as the graph asks for it."""
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
