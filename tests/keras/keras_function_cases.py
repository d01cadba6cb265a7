"""Cases of the functions of keras.ops: each of them, of floats and of integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops
from keras_case import SERIES, case, one

INTEGERS = (5, 4)  # 0 to 6


def _each(name: str, made: Callable[[Any], Any], *functions: Any) -> None:
    """A case of several functions of one tensor."""
    one(name, SERIES, lambda x: [f(made(x)) for f in functions])


def _same(x: Any) -> Any:
    return x


def _named(names: str) -> tuple[Any, ...]:
    return tuple(getattr(ops, name) for name in names.split())


PAIRS = _named(
    "add subtract multiply divide true_divide maximum minimum mod floor_divide equal not_equal "
    "greater less greater_equal less_equal"
)
REDUCTIONS = _named("sum mean prod max min amax amin var std all any")


def pointwise() -> None:
    """Functions of one tensor, where they are defined, and of two."""
    _each(
        "ops_anywhere",
        _same,
        *_named(
            "absolute exp expm1 square reciprocal sin cos tan arctan sinh cosh arcsinh floor ceil "
            "sign erf negative zeros_like ones_like stop_gradient"
        ),
    )
    positive = _named("log log1p log2 sqrt rsqrt")
    _each("ops_positive", lambda x: ops.absolute(x) + 0.1, *positive)
    _each("ops_inside", lambda x: ops.tanh(x), *_named("arcsin arccos arctanh"))
    _each("ops_above", lambda x: ops.absolute(x) + 1.0, ops.arccosh)
    special = _named("isnan isinf isfinite")
    _each("ops_special", ops.log, *special, lambda x: ops.logical_not(ops.isnan(x)))
    _each(
        "ops_nonlinear",
        _same,
        *_named(
            "relu relu6 sigmoid silu tanh softplus softsign hard_sigmoid hard_silu hard_tanh "
            "log_sigmoid selu tanh_shrink sparse_sigmoid sparse_plus leaky_relu elu celu "
            "log_softmax"
        ),
        lambda x: ops.gelu(x, approximate=False),
        lambda x: ops.leaky_relu(x, 0.3),
        lambda x: ops.elu(x, 0.5),
        lambda x: ops.celu(x, 0.7),
        lambda x: ops.softmax(x, axis=1),
        lambda x: ops.log_softmax(x, axis=1),
    )
    both = [SERIES, SERIES]
    case("ops_pairs", both, lambda x, y: [f(x, y) for f in (*PAIRS, ops.arctan2)])
    case(
        "ops_pairs_integers",
        both,
        lambda x, y: [f(x, y + 1) for f in (*PAIRS, ops.power)],
        x0="int32",
        x1="int32",
    )
    case("ops_pairs_mixed", both, lambda x, y: [f(x, y + 1) for f in PAIRS[:7]], x1="int32")
    logic = _named("logical_and logical_or logical_xor")
    case("ops_logic", both, lambda x, y: [f(x, y) for f in logic], x0="bool", x1="bool")
    case("ops_matmul", [(5, 4), (4, 3)], lambda x, y: ops.matmul(x, y))


def of_integers() -> None:
    """Functions of integers, whose results are floats for some."""
    alone = _named(
        "absolute square sign negative exp sqrt sin arctan log1p expm1 cosh floor ceil isnan "
        "zeros_like"
    )
    case("ops_integers", [INTEGERS], lambda x: [f(x) for f in alone], x0="int32")
    case(
        "ops_integer_numbers",
        [INTEGERS],
        lambda x: [x + 1, x * 1.5, x / 2, x // 2, x % 3, x - 7, -x, x**2, x > 2, ops.abs(x - 3)],
        x0="int32",
    )
    case(
        "ops_integer_reductions",
        [INTEGERS],
        lambda x: [f(x, axis=1) for f in (*REDUCTIONS, ops.argmax, ops.argmin)],
        x0="int32",
    )
    case("ops_all_any", [INTEGERS], lambda x: [f(x, axis=-1) for f in REDUCTIONS[-2:]], x0="bool")


def arrangements() -> None:
    """Functions that reduce, place and choose."""
    one(
        "ops_reductions",
        SERIES,
        lambda x: [
            f(x, axis=axis)
            for f in (ops.prod, ops.amax, ops.amin, ops.argmin, ops.mean, ops.var)
            for axis in (1, -1)
        ],
    )
    one(
        "ops_cumulative",
        SERIES,
        lambda x: [ops.cumsum(x, axis=1), ops.swapaxes(x, 1, 2), ops.tile(x, [1, 2, 3])],
    )
    one("ops_repeat", SERIES, lambda x: [ops.repeat(x, 3, axis=1), ops.repeat(x, 2, axis=-1)])
    one("ops_take", SERIES, lambda x: [ops.take(x, [0, 3, 1], axis=1), ops.take(x, 2, axis=-1)])
    case(
        "ops_one_hot",
        [(5,)],
        lambda x: [
            ops.one_hot(x, 5),
            ops.one_hot(x, 7, axis=1, dtype="int32"),
            ops.cast(x, "float16"),
            ops.cast(x, "bool"),
        ],
        x0="int32",
    )
    one("ops_cast", SERIES, lambda x: [ops.cast(x * 10, t) for t in ("int32", "int8", "float64")])


def orderings() -> None:
    """Functions that pad, move, sort and mask."""
    one(
        "ops_moved",
        SERIES,
        lambda x: [
            ops.pad(x, [[0, 0], [1, 2], [0, 1]]),
            ops.pad(x, [[0, 0], [1, 2], [2, 1]], mode="reflect"),
            ops.moveaxis(x, 1, 2),
            ops.moveaxis(x, [2, 1], [1, 2]),
            ops.roll(x, 2, axis=1),
            ops.roll(x, -1, axis=-1),
            *ops.unstack(x, axis=1)[:2],
            *ops.unstack(x, axis=-1)[-1:],
            ops.tril(x),
            ops.triu(x, k=1),
            ops.tril(x, k=-1),
        ],
    )
    one("ops_broadcast", (1, 4), lambda x: ops.broadcast_to(ops.mean(x, axis=0), (2, 3, 4)))
    case("ops_ravel", [SERIES], lambda x: ops.ravel(ops.sum(x, axis=(1, 2))))
    one(
        "ops_sorted",
        SERIES,
        lambda x: [
            ops.sort(x, axis=1),
            ops.sort(x),
            ops.argsort(x, axis=1),
            *ops.top_k(x, 3),
            ops.take_along_axis(x, ops.argsort(x, axis=1), axis=1),
        ],
    )
    _each(
        "ops_computed",
        lambda x: ops.absolute(x) + 0.1,
        *_named("log10 round glu hard_shrink soft_shrink normalize"),
        lambda x: ops.cumprod(x, axis=1),
        lambda x: ops.glu(x, axis=2),
        lambda x: ops.round(x * 4.0 - 3.0),
        lambda x: ops.normalize(x, axis=1),
    )
