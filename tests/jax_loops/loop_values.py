"""Steps of the bodies of random JAX loops: each takes a scope and gives a value, or nothing where
none fits. Values of floats stay near one, so that rounding stays small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from loop_scope import Scope, alike, drawn, fitted, is_float, is_integer

jnp, lax = jax.numpy, jax.lax

UNARY: tuple[Callable[[Any], Any], ...] = (
    jnp.sin,
    jnp.cos,
    jnp.tanh,
    jax.nn.sigmoid,
    jax.nn.relu,
    jnp.abs,
    lambda x: -x,
    lambda x: jnp.exp(-jnp.abs(x)),
    lambda x: jnp.log1p(jnp.abs(x)),
    lambda x: jnp.sqrt(jnp.abs(x) + 0.1),
    lambda x: x / (1 + jnp.abs(x)),
    lambda x: jnp.clip(x, -0.5, 0.75),
    lambda x: x * x - 0.5,
    lambda x: jnp.arctan(x),
    lambda x: jax.nn.softplus(x) - 1,
    lambda x: 1 / (1 + x * x),
    lambda x: jax.nn.gelu(x),
    jnp.sign,
)


def unary(s: Scope) -> Any:
    x = s.pick(is_float)
    return None if x is None else s.random.choice(UNARY)(x)


def binary(s: Scope) -> Any:
    x = s.pick(is_float)
    if x is None:
        return None
    y = alike(s, x)
    return s.random.choice(
        (
            lambda: (x + y) / 2,
            lambda: (x - y) / 2,
            lambda: jnp.tanh(x * y),
            lambda: jnp.minimum(x, y),
            lambda: jnp.maximum(x, y),
            lambda: x / (1 + jnp.abs(y)),
            lambda: jnp.where(x > y, x, y * 0.5),
            lambda: jnp.hypot(x, y) / 2 if not s.differentiable else x * 0.5,
            lambda: jnp.copysign(x, y),
        )
    )()


def integer(s: Scope) -> Any:
    x = s.pick(is_integer)
    if x is None:
        return None
    y = alike(s, x)
    bits = x.dtype.itemsize * 8
    return s.random.choice(
        (
            lambda: x + y,
            lambda: x - y,
            lambda: x * y,
            lambda: x // jnp.where(y == 0, jnp.ones_like(y), y),
            lambda: x % jnp.where(y == 0, jnp.ones_like(y) * 3, y),
            lambda: x & y,
            lambda: x ^ y,
            lambda: ~x,
            lambda: lax.shift_left(x, y % bits),
            lambda: lax.shift_right_logical(x, y % bits),
            lambda: lax.shift_right_arithmetic(x, y % bits),
            lambda: lax.population_count(x),
            lambda: lax.clz(x),
            lambda: jnp.minimum(x, y),
            lambda: jnp.maximum(x, y) % 5,
        )
    )()


def logic(s: Scope) -> Any:
    x = s.pick()
    y = alike(s, x)
    if x.dtype == jnp.bool_:
        return s.random.choice((jnp.logical_and, jnp.logical_or, jnp.logical_xor))(x, y)
    return s.random.choice((jnp.less, jnp.less_equal, jnp.greater, jnp.equal, jnp.not_equal))(x, y)


def chosen(s: Scope) -> Any:
    condition = s.pick(lambda v: v.dtype == jnp.bool_)
    x = s.pick()
    if condition is None:
        return None
    y = alike(s, x)
    return jnp.where(fitted(s, condition, x.shape, "bool"), x, y)


def converted(s: Scope) -> Any:
    x = s.pick()
    return fitted(s, x, x.shape, s.random.choice(s.dtypes))


def viewed(s: Scope) -> Any:
    x = s.pick(lambda v: v.ndim and v.size)
    if x is None:
        return None
    axis, random = s.random.randrange(x.ndim), s.random
    size = x.shape[axis]
    cut = random.randint(0, size)
    kept = x if x.dtype != jnp.bool_ else x.astype("int32")
    return random.choice(
        (
            lambda: jnp.flip(x, axis),
            lambda: jnp.roll(x, random.randint(-size, size), axis),
            lambda: x.T,
            lambda: x.ravel(),
            lambda: x[None],
            lambda: lax.slice_in_dim(x, 0, cut, 1, axis),
            lambda: lax.slice_in_dim(x, random.randrange(size), size, random.choice((1, 2)), axis),
            lambda: jnp.concatenate([x, alike(s, x)], axis) if x.size < 200 else x,
            lambda: lax.pad(
                kept,
                jnp.zeros((), kept.dtype),
                [(random.choice((-1, 0, 1)), 1, random.randint(0, 1))] * x.ndim,
            ),
            lambda: jnp.repeat(x, 2, axis) if x.size < 200 else x,
            lambda: jnp.swapaxes(x, 0, -1),
        )
    )()


def reduced(s: Scope) -> Any:
    x = s.pick(lambda v: v.ndim and v.size)
    if x is None:
        return None
    axis = s.random.choice((None, *range(x.ndim)))
    if x.dtype == jnp.bool_:
        return s.random.choice((jnp.any, jnp.all))(x, axis)
    along = axis if axis is not None else 0
    return s.random.choice(
        (
            lambda: (
                (x.sum(axis) / x.size).astype(x.dtype)
                if is_float(x)
                else x.sum(axis, dtype=x.dtype)
            ),
            lambda: x.max(axis),
            lambda: x.min(axis),
            lambda: jnp.argmax(x, axis),
            lambda: jnp.cumsum(x, along, dtype=x.dtype) / (x.shape[along] if is_float(x) else 1),
            lambda: jnp.sort(x, along),
            lambda: jax.nn.softmax(x, along) if is_float(x) else lax.cummax(x, along),
            lambda: (x * x).mean(axis) if is_float(x) else lax.reduce_xor(x, (along,)),
        )
    )()


def multiplied(s: Scope) -> Any:
    x = s.pick(lambda v: is_float(v) and v.ndim in (1, 2) and v.size)
    if x is None:
        return None
    depth, columns = x.shape[-1], s.random.choice((1, 3, 5, 8))
    y = s.pick(lambda v: v.dtype == x.dtype and v.ndim == 2 and v.shape[0] == depth)
    if y is None or s.random.random() < 0.3:
        y = jnp.asarray(drawn(s.random, (depth, columns), x.dtype.name))
    return (x @ y) / depth


def _index(s: Scope) -> Any:
    """A scalar that is computed, often out of range."""
    found = s.pick(
        lambda v: is_integer(v) and v.ndim == 0 and v.dtype.name in ("int32", "int64", "uint32")
    )
    return found if found is not None else jnp.int32(s.random.randint(-3, 6))


def cut_out(s: Scope) -> Any:
    """A slice at a computed place; starts out of range are clamped."""
    x = s.pick(lambda v: v.ndim and v.size)
    if x is None:
        return None
    axis = s.random.randrange(x.ndim)
    return s.random.choice(
        (
            lambda: lax.dynamic_slice_in_dim(
                x, _index(s), s.random.randint(1, x.shape[axis]), axis
            ),
            lambda: lax.dynamic_index_in_dim(x, _index(s), axis, keepdims=False),
            lambda: jnp.take(x, _index(s), axis, mode="clip"),
            lambda: jnp.take(x, _index(s), axis, mode="wrap"),
            lambda: x[_index(s)],
        )
    )()


def written(s: Scope) -> Any:
    """A value with a part replaced, at a computed place or a known one."""
    x = s.pick(lambda v: v.ndim and v.size)
    if x is None:
        return None
    axis, random = s.random.randrange(x.ndim), s.random
    row = fitted(s, s.pick(), x.shape[1:], x.dtype)
    part = list(x.shape)
    part[axis] = random.randint(1, x.shape[axis])
    update = fitted(s, s.pick(), tuple(part), x.dtype)
    known = random.randrange(x.shape[0])
    whole = x.dtype == jnp.bool_
    return random.choice(
        (
            lambda: lax.dynamic_update_slice_in_dim(x, update, _index(s), axis),
            lambda: lax.dynamic_update_slice_in_dim(x, update, _index(s), axis),
            lambda: x.at[_index(s)].set(row),
            lambda: x.at[known].set(row),
            lambda: x.at[_index(s)].set(row, mode="drop") if whole else x.at[_index(s)].max(row),
            lambda: x.at[known].set(x[0]) if whole else x.at[_index(s)].min(row, mode="clip"),
            lambda: x if whole else (x.at[_index(s)].add(row) / 2).astype(x.dtype),
            lambda: x.at[::2].set(row),
        )
    )()


def gathered(s: Scope) -> Any:
    """Rows chosen, or written, by a vector of indices."""
    x = s.pick(lambda v: v.ndim and v.size)
    index = s.pick(lambda v: is_integer(v) and v.ndim == 1 and v.dtype.name != "int8")
    if x is None or index is None:
        return None
    rows = fitted(s, s.pick(), (*index.shape, *x.shape[1:]), x.dtype)
    inside = index % x.shape[0]
    options: tuple[Callable[[], Any], ...] = (
        lambda: jnp.take(x, index, 0, mode="clip"),
        lambda: x[inside],
        lambda: x.at[index].max(rows) if x.dtype != jnp.bool_ else x[inside],
        lambda: jax.ops.segment_sum(rows, inside, x.shape[0]) if is_integer(x) else x[inside],
        lambda: x[jnp.argsort(index, stable=True) % x.shape[0]],
    )
    return s.random.choice(options)()


VALUES: tuple[Callable[[Scope], Any], ...] = (
    *(unary, unary, binary, binary, binary, integer, integer, logic, chosen, converted),
    *(viewed, viewed, reduced, reduced, multiplied, cut_out, cut_out, written, written, gathered),
)
"""Each as often as it is drawn."""
