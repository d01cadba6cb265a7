"""Slices whose starts are data: reading one, and replacing one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.dims import Dim, Shape, static
from xlac.ir.faults import DeclaredFault, OutOfRange
from xlac.ir.graph import Node, apply, zeros
from xlac.ir.leading import all_mapped, with_axis
from xlac.ir.op import Array, Elementwise, Index, Operand, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops.checks import INTEGERS, check_dtype, check_lengths, check_scalar, fits
from xlac.ops.tensor.in_range import both, clamp, may_be_empty
from xlac.ops.tensor.index import Ints, clamped, index_element
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive


def listed(starts: Sequence[Node], mapped: Sequence[bool], size: Dim) -> Node:
    """Starts, some along a leading axis, as i64[size, rank]: beyond it, u64 saturates."""
    columns = []
    for start, on in zip(starts, mapped, strict=True):
        if start.type.dtype is DType.U64:
            most = apply("const", value=np.asarray(2**62, np.uint64))
            start = apply("min", start, with_axis(most, size) if on else most)
        wide = apply("cast", start, dtype=DType.I64)
        columns.append(apply("reshape", wide if on else with_axis(wide, size), shape=(size, 1)))
    return apply("concat", *columns, axis=1)


def _line(size: Dim) -> Node:
    """A size as i64[1], which may be known only when the model runs."""
    if isinstance(size, int):
        return apply("const", value=np.asarray([size], np.int64))
    return apply("dim_size", apply("iota", shape=(size,), axis=0, dtype=DType.I64), axis=0)


@declare
class DynSlice(Elementwise):
    """The part of x of the given `sizes` that begins at `starts`, one scalar an axis, clamped so
    that it lies inside.
    """

    mnemonic = "dyn_slice"
    creates = frozenset()
    operands = ("x", "*starts")
    sizes: tuple[Dim, ...] = ()

    def infer(self, *types: Type) -> Type:
        x, *starts = types
        check_lengths(self.mnemonic, x.rank, sizes=self.sizes)
        check_starts(self.mnemonic, x, starts, 1)
        for axis, (size, limit) in enumerate(zip(self.sizes, x.shape, strict=True)):
            if not fits(size, limit) or (isinstance(size, int) and size < 0):
                raise ShapeError(
                    f"a slice of {size} along axis {axis} does not fit {x}", attribute="sizes"
                )
        return x.with_shape(self.sizes)

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        x, *starts = node.inputs
        return [apply("dyn_update", zeros(x.type), ct, *starts), *[None] * len(starts)]

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node]:
        """Starts of its own for each make it a gather."""
        x, *starts = inputs
        if not any(mapped[1:]):
            zero = zeros(starts[0].type) if starts else zeros(Type(DType.I32))
            return [apply("dyn_slice", x, zero, *starts, sizes=(size, *self.sizes))]
        rank = node.inputs[0].type.rank
        axes = tuple(range(rank))
        given = {"slice_sizes": self.sizes, "start_index_map": axes}
        if mapped[0]:
            given = {
                "slice_sizes": (0 if size == 0 else 1, *self.sizes),
                "start_index_map": tuple(range(1, rank + 1)),
                "operand_batching_dims": (0,),
                "start_indices_batching_dims": (0,),
            }
        at, offsets = listed(starts, mapped[1:], size), tuple(range(1, rank + 1))
        return [apply("gather", x, at, index_vector_dim=1, offset_dims=offsets, **given)]

    def evaluate(self, *arrays: Array) -> Array:
        x, *starts = arrays
        first = [
            int(clamped(s, n - k))
            for s, n, k in zip(starts, x.shape, static(self.sizes), strict=True)
        ]
        return x[tuple(slice(f, f + k) for f, k in zip(first, static(self.sizes), strict=True))]

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        x, *starts = inputs
        limits = [n - k for n, k in zip(x.type.shape, self.sizes, strict=True)]
        first = [index_element(s.read(()), limit) for s, limit in zip(starts, limits, strict=True)]
        return x.read(tuple(build.add(f, i) for f, i in zip(first, at, strict=True)))

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, *starts = inputs
        return starts_out_of_range(starts, x.shape, self.sizes)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints]] = [
            ((), ()),
            ((7,), (3,)),
            ((7,), (7,)),
            ((7,), (0,)),
            ((0,), (0,)),
            ((3, 5), (2, 2)),
            ((2, 3, 5), (1, 3, 2)),
            ((4999,), (4000,)),
        ]
        samples = [
            Sample(
                (Type(DType.F32, s), *[Type(DType.I32)] * len(s)), {"sizes": k}, ("normal", "index")
            )
            for s, k in cases
        ]
        samples += [
            Sample((Type(d, (9,)), Type(DType.I64)), {"sizes": (4,)}, ("normal", "index"))
            for d in DType
        ]
        return samples + [
            Sample((Type(DType.F32, (9,)), Type(d)), {"sizes": (4,)}, ("normal", "special"))
            for d in DType
            if d.is_integer
        ]


def starts_out_of_range(
    starts: Sequence[Node], shape: Shape, sizes: Shape
) -> Sequence[DeclaredFault]:
    """The same for starts that are scalars, one an axis."""
    if 0 in sizes:
        return ()
    return [
        OutOfRange(start, (limit - size + 1,), what=f"start {{value}} along axis {axis}")
        for axis, (start, limit, size) in enumerate(zip(starts, shape, sizes, strict=True))
    ]


def check_starts(mnemonic: str, x: Type, starts: Sequence[Type], first: int) -> None:
    """Refuses starts that are not one integer scalar for each axis. Raises ShapeError."""
    if len(starts) != x.rank:
        raise ShapeError(f"{mnemonic} needs {x.rank} starts for {x}, got {len(starts)}")
    for number, start in enumerate(starts, first):
        check_dtype(mnemonic, start, INTEGERS, number)
        check_scalar(mnemonic, start, number)


@declare
class DynUpdate(Elementwise):
    """x with the part that begins at `starts` replaced by `update`; the starts are clamped so that
    it fits.
    """

    mnemonic = "dyn_update"
    creates = frozenset()
    operands = ("x", "update", "*starts")

    def infer(self, *types: Type) -> Type:
        x, update, *starts = types
        check_starts(self.mnemonic, x, starts, 2)
        if update.dtype is not x.dtype or update.rank != x.rank:
            raise ShapeError(
                f"dyn_update needs an update of x's element type and rank, got {x} and {update}",
                operand=1,
            )
        for axis, (size, limit) in enumerate(zip(update.shape, x.shape, strict=True)):
            if not fits(size, limit):
                raise ShapeError(f"the update {update} exceeds {x} along axis {axis}", operand=1)
        return x

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x", "update"),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        _, update, *starts = node.inputs
        return [
            apply("dyn_update", ct, zeros(update.type), *starts) if linear[0] else None,
            apply("dyn_slice", ct, *starts, sizes=update.shape) if linear[1] else None,
            *[None] * len(starts),
        ]

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node]:
        """Starts of its own for each make it a scatter, which drops what does not fit: they are
        clamped before.
        """
        x, update, *starts = inputs
        x, update = all_mapped((x, update), mapped[:2], size)
        if not any(mapped[2:]):
            zero = zeros(starts[0].type) if starts else zeros(Type(DType.I32))
            return [apply("dyn_update", x, update, zero, *starts)]
        whole, part = (i.shape for i in node.inputs[:2])
        places = listed(starts, mapped[2:], size)
        limits = apply("concat", *(_line(n - k) for n, k in zip(whole, part, strict=True)), axis=0)
        most = apply("broadcast", limits, shape=places.shape, axes=(1,))
        places = apply("max", apply("min", places, most), zeros(places.type))
        axes = tuple(range(1, len(whole) + 1))
        return [
            apply(
                "scatter",
                x,
                places,
                update,
                update_window_dims=axes,
                input_batching_dims=(0,),
                scatter_indices_batching_dims=(0,),
                scatter_dims_to_operand_dims=axes,
                index_vector_dim=1,
                combine="assign",
                unique=True,
            )
        ]

    def evaluate(self, *arrays: Array) -> Array:
        x, update, *starts = arrays
        first = [
            int(clamped(s, n - k)) for s, n, k in zip(starts, x.shape, update.shape, strict=True)
        ]
        result = np.array(x)
        result[tuple(slice(f, f + k) for f, k in zip(first, update.shape, strict=True))] = update
        return result

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        x, update, *starts = inputs
        shape, sizes = x.type.shape, update.type.shape
        if update.type.size == 0:
            return x.read(at)
        inside: Expr | None = None
        where = []
        for i, start, size, limit in zip(at, starts, sizes, shape, strict=True):
            if size == limit:
                where.append(i)
                continue
            position = build.sub(i, index_element(start.read(()), limit - size))
            inside = both(inside, build.apply(Primitive.LE, build.index(0), position))
            inside = both(inside, build.apply(Primitive.LT, position, build.lift(size)))
            where.append(clamp(position, size - 1))
        new = build.cast(
            update.read(tuple(where), inside if may_be_empty(update.type) else None),
            result.dtype.compute,
        )
        return (
            new
            if inside is None
            else build.select(inside, new, build.cast(x.read(at), result.dtype.compute))
        )

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, update, *starts = inputs
        return starts_out_of_range(starts, x.shape, update.shape)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints]] = [
            ((), ()),
            ((7,), (3,)),
            ((7,), (7,)),
            ((7,), (0,)),
            ((0,), (0,)),
            ((3, 5), (2, 2)),
            ((3, 5), (1, 5)),
            ((2, 3, 5), (1, 3, 2)),
            ((4999,), (3,)),
        ]
        samples = [
            Sample(
                (Type(DType.F32, s), Type(DType.F32, k), *[Type(DType.I32)] * len(s)),
                {},
                ("normal", "normal", "index"),
            )
            for s, k in cases
        ]
        return samples + [
            Sample(
                (Type(d, (9,)), Type(d, (4,)), Type(DType.I64)), {}, ("normal", "normal", "index")
            )
            for d in DType
        ]
