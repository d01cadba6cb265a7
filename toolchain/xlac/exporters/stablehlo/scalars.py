"""Exports scalar operations."""

from __future__ import annotations

from typing import Any

from xlac.exporters.stablehlo.erf import erf
from xlac.exporters.stablehlo.writer import SsaValue, StableHloWriter, rule
from xlac.ir.dims import Sym
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

SAME = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "rem": "remainder",
    "pow": "power", "max": "maximum", "min": "minimum", "floor": "floor", "ceil": "ceil",
    "round": "round_nearest_even", "exp": "exponential", "expm1": "exponential_minus_one",
    "log": "log", "log1p": "log_plus_one", "sin": "sine", "cos": "cosine", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "atan2": "atan2", "tanh": "tanh", "sigmoid": "logistic", "and": "and",
    "or": "or", "xor": "xor", "not": "not", "shl": "shift_left", "neg": "negate",
    "popcnt": "popcnt", "clz": "count_leading_zeros", "barrier": "optimization_barrier",
    "cbrt": "cbrt",
}  # fmt: skip


@rule(*SAME)
def same(w: StableHloWriter, node: Node, *xs: SsaValue) -> SsaValue:
    """The operation in the table `SAME`, with the same semantics."""
    return w.op(SAME[node.op.mnemonic], xs, node.type)


@rule("abs")
def absolute(w: StableHloWriter, node: Node, x: SsaValue) -> SsaValue:
    """abs; unsigned numbers are unchanged, as StableHLO has no abs for them."""
    return w.op("abs", [x], node.type) if node.type.dtype.is_signed else x


@rule("shr")
def shift_right(w: StableHloWriter, node: Node, x: SsaValue, n: SsaValue) -> SsaValue:
    """The arithmetic or logical shift, by the signedness of the dtype."""
    return w.op(
        "shift_right_arithmetic" if node.type.dtype.is_signed else "shift_right_logical",
        [x, n],
        node.type,
    )


@rule("erf")
def error_function(w: StableHloWriter, node: Node, x: SsaValue) -> SsaValue:
    """Rational functions in f64: StableHLO has no erf, and CHLO is another dialect."""
    return w.subgraph(erf(node.inputs[0]), {node.inputs[0]: x})


@rule("compare")
def compare(w: StableHloWriter, node: Node, x: SsaValue, y: SsaValue) -> SsaValue:
    """compare in the operation's direction."""
    op: Any = node.op
    return compared(w, op.direction, x, y)


def compared(w: StableHloWriter, direction: str, x: SsaValue, y: SsaValue) -> SsaValue:
    """One comparison; -0 equals 0, and nothing equals NaN."""
    dtype = x.type.dtype
    kind = "FLOAT" if dtype.is_float else "SIGNED" if dtype.is_signed else "UNSIGNED"
    given = (
        f"comparison_direction = #stablehlo<comparison_direction {direction.upper()}>, "
        f"compare_type = #stablehlo<comparison_type {kind}>"
    )
    return w.op("compare", [x, y], x.type.with_dtype(DType.BOOL), given)


@rule("select")
def select(
    w: StableHloWriter, node: Node, condition: SsaValue, x: SsaValue, y: SsaValue
) -> SsaValue:
    """select, whose condition has the shape of both."""
    return w.op("select", [condition, x, y], node.type)


@rule("cast")
def cast(w: StableHloWriter, node: Node, x: SsaValue) -> SsaValue:
    """convert, with corrections for our semantics: see `converted`."""
    return converted(w, x, node.type.dtype)


def converted(w: StableHloWriter, x: SsaValue, new: DType) -> SsaValue:
    """A value in another element type; half precision is converted through f32."""
    old = x.type.dtype
    if old is new:
        return x
    if (old.is_half or new.is_half) and DType.F32 not in (old, new):
        x = w.op("convert", [x], x.type.with_dtype(DType.F32))
    return w.op("convert", [x], x.type.with_dtype(new))


@rule("bitcast")
def bitcast(w: StableHloWriter, node: Node, x: SsaValue) -> SsaValue:
    """bitcast_convert; the widths' ratio is the last axis, as here. JAX refines no such axis for
    open sizes: there it is made and taken away by shifts.
    """
    old, new = x.type.dtype, node.type.dtype
    if old.bits == new.bits or not any(isinstance(n, Sym) for n in node.type.shape):
        return w.op("bitcast_convert", [x], node.type)
    wide, narrow = (DType(f"u{max(old.bits, new.bits)}"), DType(f"u{min(old.bits, new.bits)}"))
    source = node.inputs[0]
    bits = build.apply1("bitcast", source, dtype=DType(f"u{old.bits}"))
    count, last = wide.bits // narrow.bits, source.type.rank - 1
    if new.bits < old.bits:
        low = build.constant(2**narrow.bits - 1, wide)
        parts = [
            build.apply1("and", build.apply1("shr", bits, n * narrow.bits), low)
            for n in range(count)
        ]
        each = [build.reshape(build.cast(p, narrow), (*source.shape, 1)) for p in parts]
        whole = build.concat(each, last + 1)
    else:
        pieces = [
            build.cast(build.reshape(build.cut(bits, last, n, n + 1), source.shape[:-1]), wide)
            for n in range(count)
        ]
        whole = pieces[0]
        for n, piece in enumerate(pieces[1:], 1):
            whole = build.apply1("or", whole, build.apply1("shl", piece, n * narrow.bits))
    return w.subgraph(build.apply1("bitcast", whole, dtype=new), {source: x})
