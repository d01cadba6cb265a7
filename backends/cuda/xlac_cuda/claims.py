"""Which matrix products are cuBLASLt's, where its calls are wanted, and the sizes from which one is worth it."""

from __future__ import annotations

from collections.abc import Sequence

from xlac_sdk.dtypes import DType
from xlac_sdk.products import GELU, PRODUCT, RELU, Products
from xlac_sdk.program import Call, Program, walk
from xlac_sdk.source import Diagnostic, SourceError

FEATURE = "cublaslt"
HOPPER = 90
LEAST = 64  # rows, columns and depth: below, tiles of the library are mostly empty
FLOPS = {DType.F32: 1 << 28, DType.F16: 1 << 31, DType.BF16: 1 << 31}
"""2 * 512^3 and 2 * 1024^3: about 5 us of an H100 or H200. bench/gpu/NOTES.md has the reasons; no GPU has measured them."""
AMPERE = {DType.F32: 1 << 27, DType.F16: 1 << 30, DType.BF16: 1 << 30}  # the same time at its rates
WORKSPACE = {True: 32 << 20, False: 4 << 20}  # bytes, on Hopper and later or before: what NVIDIA recommends


def products(features: Sequence[str], capability: int, at_once: bool) -> frozenset[Products]:
    """What schedules may ask cuBLASLt for: what `--arch sm_90a+cublaslt` names, or, where the program runs `at_once` on
    this machine's GPU, what is installed. Raises SourceError for another feature."""
    for name in features:
        if name != FEATURE:
            problem = f"the cuda backend has no feature '{name}'"
            raise SourceError(Diagnostic("XL5201", problem, hint=f"--arch sm_90a+{FEATURE}"))
    if not features and at_once:
        from xlac_cuda import cublaslt

        features = [FEATURE] if cublaslt.found() is not None else []
    return described(capability) if features else frozenset()


def described(capability: int) -> frozenset[Products]:
    """What the library computes on GPUs of a compute capability: 90, say."""
    flops, workspace = FLOPS if capability >= HOPPER else AMPERE, WORKSPACE[capability >= HOPPER]
    return frozenset(
        Products("cuBLASLt", dtype, frozenset({dtype, DType.F32}), frozenset({RELU, GELU}), LEAST, least, workspace)
        for dtype, least in flops.items()
    )


def calls_products(program: Program) -> bool:
    """Whether a program needs the library where it runs."""
    return any(isinstance(step, Call) and step.name == PRODUCT for step in walk(program.steps))
