"""Matrix products by cuBLASLt: descriptors and the algorithm are made once for each product, and
reused by every call.

The library's matrices are column-major. A row-major result is the transposed one in column-major
order, so the library computes `right^T left^T`: its A is xlac's right operand, its B the left one,
and its rows are xlac's columns.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xlac_cuda.device.gpu import Gpu
from xlac_cuda.libraries.cublaslt import (
    COMPUTE_32F,
    COMPUTE_32F_FAST_TF32,
    SPLITS_IN_F32,
    TYPES,
    WITHOUT,
    CublasAlgorithm,
    CublasEpilogue,
    CublasLayout,
    CublasLt,
    Desc,
    Heuristic,
    Preference,
    wanted,
)
from xlac_cuda.plan import Arrays, Whole
from xlac_sdk.dims import static
from xlac_sdk.dtypes import DType
from xlac_sdk.libraries.findings import Findings
from xlac_sdk.libraries.product import Matrices, Product
from xlac_sdk.source import Diagnostic, UnsupportedError

ALIGNED = 256  # bytes of workspace that algorithms may use
ALIGNMENTS = (
    Preference.MIN_ALIGNMENT_A_BYTES,
    Preference.MIN_ALIGNMENT_B_BYTES,
    Preference.MIN_ALIGNMENT_C_BYTES,
    Preference.MIN_ALIGNMENT_D_BYTES,
)

Alignments = tuple[int, int, int, int]
_known: dict[object, Heuristic] = {}  # algorithms chosen by the heuristics in this process
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Operands:
    """Addresses of the library's A, B, C and D, of the bias and of the workspace."""

    a: int
    b: int
    c: int
    d: int
    bias: int
    workspace: int

    @staticmethod
    def of(product: Product, whole: Whole, arrays: Arrays) -> _Operands:
        left, right, *rest = (place.at(arrays) for place in whole.places)
        addend = rest.pop(0) if product.addend else 0
        bias = rest.pop(0) if product.biased else 0
        result, workspace = rest
        where = {
            name: address + _bytes(side)
            for name, address, side in (
                ("a", right, product.right),
                ("b", left, product.left),
                ("d", result, product.result),
                ("c", addend, product.addend),
            )
            if side is not None
        }
        (start,) = static((product.bias_offset,))
        where.setdefault("c", where["d"])
        return _Operands(
            **where, bias=bias + start * product.result.dtype.nbytes, workspace=workspace
        )

    @property
    def alignments(self) -> Alignments:
        a, b, c, d = (
            min(ALIGNED, address & -address) for address in (self.a, self.b, self.c, self.d)
        )
        return a, b, c, d


class MatrixProducts:
    """The products of one program on one GPU. The context must be current in every method, and
    calls must not overlap.
    """

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.blas = wanted()
        self.handle = self.blas.handle("cublasLtCreate")
        self._plans: dict[tuple[Product, Alignments], _Plan] = {}

    def __call__(self, whole: Whole, arrays: Arrays, findings: Findings) -> Callable[[int], None]:
        """Prepares one product, to be submitted to a stream. Its algorithm is chosen
        immediately.
        """
        product: Product = whole.step.attributes["product"]
        if 0 in (product.count, product.rows, product.columns):
            return lambda stream: None
        operands = _Operands.of(product, whole, arrays)
        key = product, operands.alignments
        if key not in self._plans:
            self._plans[key] = _Plan(self.blas, self.handle, self.gpu, product, operands)
        plan = self._plans[key]
        return lambda stream: plan.run(operands, stream)

    def close(self) -> None:
        """Releases everything."""
        for plan in self._plans.values():
            plan.close()
        self._plans.clear()
        self.blas("cublasLtDestroy", self.handle)


class _Plan:
    """One product for pointers of some alignment."""

    def __init__(
        self, blas: CublasLt, handle: int, gpu: Gpu, product: Product, operands: _Operands
    ) -> None:
        self.blas, self.handle, self.product = blas, handle, product
        self._made: list[tuple[str, int]] = []
        self._scale, self._keep = (
            ctypes.c_float(product.scale),
            ctypes.c_float(1.0 if product.addend else 0.0),
        )
        try:
            self.desc = self._description(operands.bias)
            self.layouts = self._layouts()
            key = blas.number, gpu.name, gpu.processors, product, operands.alignments
            with _lock:
                if key not in _known:
                    _known[key] = self._best(operands.alignments)
                self.algorithm: CublasAlgorithm = _known[key].algorithm
                self.workspace = int(_known[key].workspace)
        except BaseException:
            self.close()
            raise

    def run(self, operands: _Operands, stream: int) -> None:
        """Submits it to a stream."""
        if self.product.biased:
            self.blas.set(self.desc, Desc.BIAS_POINTER, ctypes.c_void_p(operands.bias))
        a, b, c, d = self.layouts
        scale, keep = ctypes.addressof(self._scale), ctypes.addressof(self._keep)
        self.blas(
            "cublasLtMatmul",
            self.handle,
            self.desc,
            scale,
            operands.a,
            a,
            operands.b,
            b,
            keep,
            operands.c,
            c,
            operands.d,
            d,
            ctypes.addressof(self.algorithm),
            operands.workspace,
            self.workspace,
            stream,
        )

    def close(self) -> None:
        """Destroys the descriptors."""
        while self._made:
            kind, handle = self._made.pop()
            self.blas(f"cublasLt{kind}Destroy", handle)

    def _create(self, kind: str, *given: Any) -> int:
        handle = self.blas.handle(f"cublasLt{kind}Create", *given)
        self._made.append((kind, handle))
        return handle

    def _description(self, bias: int) -> int:
        product, blas = self.product, self.blas
        compute = COMPUTE_32F_FAST_TF32 if product.tf32 else COMPUTE_32F
        desc = self._create("MatmulDesc", compute, TYPES[DType.F32])
        blas.set(desc, Desc.TRANSA, ctypes.c_int32(product.right.columns != 1))
        blas.set(desc, Desc.TRANSB, ctypes.c_int32(product.left.columns != 1))
        name = "_".join(
            part for part in (product.activation.upper(), "BIAS" if product.biased else "") if part
        )
        blas.set(desc, Desc.EPILOGUE, ctypes.c_uint32(CublasEpilogue[name or "DEFAULT"]))
        if product.biased:
            blas.set(desc, Desc.BIAS_DATA_TYPE, ctypes.c_int32(TYPES[product.result.dtype]))
            blas.set(desc, Desc.BIAS_POINTER, ctypes.c_void_p(bias))
        return desc

    def _layouts(self) -> tuple[int, int, int, int]:
        """The layouts of A, B, C and D, with extents in column-major order."""
        product = self.product
        rows, columns, depth = static((product.rows, product.columns, product.depth))
        a = self._layout(product.right, columns, depth)
        b = self._layout(product.left, depth, rows)
        d = self._layout(product.result, columns, rows)
        return a, b, self._layout(product.addend, columns, rows) if product.addend else d, d

    def _layout(self, side: Matrices, rows: int, columns: int) -> int:
        """The layout of matrices with the library's `rows` and `columns`, its rows being xlac's
        columns; transposed if those are not contiguous.
        """
        down, across, batch, count = static(
            (side.columns, side.rows, side.batch, self.product.count)
        )
        extents, leading = ((rows, columns), across) if down == 1 else ((columns, rows), down)
        leading = max(leading, extents[0])  # a smaller stride is that of a single column
        layout = self._create("MatrixLayout", TYPES[side.dtype], *extents, leading)
        if count > 1:
            self.blas.set(layout, CublasLayout.BATCH_COUNT, ctypes.c_int32(count))
            self.blas.set(layout, CublasLayout.STRIDED_BATCH_OFFSET, ctypes.c_int64(batch))
        return layout

    def _best(self, alignments: Alignments) -> Heuristic:
        """The first algorithm of the library's heuristics. They depend only on the problem, so the
        result is cached.
        """
        blas, product = self.blas, self.product
        preference = self._create("MatmulPreference")
        blas.set(preference, Preference.MAX_WORKSPACE_BYTES, ctypes.c_uint64(product.workspace))
        blas.set(preference, Preference.REDUCTION_SCHEME_MASK, ctypes.c_uint32(SPLITS_IN_F32))
        for attribute, nbytes in zip(ALIGNMENTS, alignments, strict=True):
            blas.set(preference, attribute, ctypes.c_uint32(nbytes))
        heuristic, count = Heuristic(), ctypes.c_int()
        status = blas.raw["cublasLtMatmulAlgoGetHeuristic"](
            self.handle,
            self.desc,
            *self.layouts,
            preference,
            1,
            ctypes.addressof(heuristic),
            ctypes.addressof(count),
        )
        if status or not count.value or heuristic.state:
            name = (
                blas.failure("cublasLtMatmulAlgoGetHeuristic", status or heuristic.state or 15)
                .diagnostics[0]
                .message
            )
            problem = f"{_described(product)}: {name}"
            raise UnsupportedError(Diagnostic("XL5222", problem, hint=WITHOUT))
        return heuristic


def _bytes(side: Matrices) -> int:
    """The offset in bytes of an operand's first element in its argument."""
    (offset,) = static((side.offset,))
    return offset * side.dtype.nbytes


def _described(product: Product) -> str:
    """`a product of bf16[2, 64, 32] and bf16[2, 32, 64] to f32 with bias, relu`"""
    batch = f"{product.count}, " if product.count != 1 else ""
    after = ", ".join(
        part
        for part in (
            "addend" if product.addend else "",
            "bias" if product.biased else "",
            product.activation,
        )
        if part
    )
    dtype = product.left.dtype
    return (
        f"a product of {dtype}[{batch}{product.rows}, {product.depth}] and "
        f"{dtype}[{batch}{product.depth}, {product.columns}] to "
        f"{product.result.dtype}" + (f" with {after}" if after else "")
    )
