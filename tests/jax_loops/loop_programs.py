"""Random JAX programs of loops: scans, while loops and counted loops within each other, with
branches, whose carries are scalars, vectors and matrices of several dtypes.

`make(seed)` gives a function and its arguments; the same seed gives the same program, however often
JAX traces it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import jax
from loop_scope import DTYPES, HALVES, SHAPES, Scope, drawn, fitted, is_float, is_integer
from loop_values import VALUES

jnp, lax = jax.numpy, jax.lax

LARGEST = 600  # elements of a value
DEEPEST = 3  # loops within each other


@dataclass(frozen=True, eq=False)
class Program:
    """A function of JAX and arguments for it; the function gives a tuple of arrays."""

    function: Callable[..., Any]
    args: tuple[Any, ...]


def make(seed: int) -> Program:
    """The random program of a seed. JAX must compute in 64 bits (`jax.enable_x64`)."""
    random = Random(seed)
    shapes = [random.choice(SHAPES) for _ in range(random.randint(2, 5))]
    dtypes = HALVES if seed % 8 == 7 else DTYPES
    args = [drawn(random, shape, random.choice(dtypes)) for shape in shapes]
    args.append(drawn(random, random.choice(((3,), (3, 3))), "float32"))
    args.append(drawn(random, (), "int32"))
    mode = random.choice(("plain",) * 6 + ("grad", "jvp", "vmap"))
    body_seed, most = random.random(), random.choice((3, 6, 12))

    def function(*given: Any) -> tuple[Any, ...]:
        values = list(map(jnp.asarray, given))
        scope = Scope(Random(body_seed), values, 0, mode == "grad", dtypes, most)
        grown(scope, scope.random.randint(0, 2))
        last: list[Any] = []
        for _ in range(scope.random.randint(1, 3)):
            last += looped(scope)
            grown(scope, scope.random.randint(0, 2))
        return (*last, *scope.values[-2:])

    return Program(_MODES[mode](function, args), tuple(args))


def _plain(function: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
    return function


def _grad(function: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
    """The derivatives of the sum of all floats that come out, by all that go in."""
    floats = [n for n, a in enumerate(args) if jnp.issubdtype(a.dtype, jnp.floating)]

    def loss(given: Sequence[Any], rest: Sequence[Any]) -> Any:
        whole = list(rest)
        for at, value in zip(floats, given, strict=True):
            whole[at] = value
        found = [v.astype("float32").sum() for v in function(*whole) if is_float(v)]
        return sum(found, jnp.float32(0))

    return lambda *given: tuple(jax.grad(loss)([given[n] for n in floats], given))


def _jvp(function: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
    """The function and its derivative in the direction of the arguments."""

    def both(*given: Any) -> tuple[Any, ...]:
        floats = [n for n, a in enumerate(given) if is_float(a)]

        def of(*moved: Any) -> Any:
            whole = list(given)
            for at, value in zip(floats, moved, strict=True):
                whole[at] = value
            return [v for v in function(*whole) if is_float(v)] or [moved[-1]]

        moved = tuple(given[n] for n in floats)
        values, tangents = jax.jvp(of, moved, moved)
        return (*values, *tangents)

    return both


def _vmap(function: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
    """The function for two sets of arguments at once, of which some are shared."""
    axes = [0 if n % 3 != 1 else None for n in range(len(args))]

    def mapped(*given: Any) -> Any:
        pairs = [
            g if axis is None else jnp.stack([g, jnp.flip(g, 0) if g.ndim else g])
            for g, axis in zip(given, axes, strict=True)
        ]
        return jax.vmap(function, axes)(*pairs)

    return mapped


_MODES = {"plain": _plain, "grad": _grad, "jvp": _jvp, "vmap": _vmap}


def grown(s: Scope, steps: int) -> None:
    """Adds about so many values to a scope; some are loops or branches of their own."""
    for _ in range(steps):
        if s.depth < DEEPEST and s.random.random() < 0.18:
            s.values += s.random.choice((looped, branched))(s)
            continue
        found = s.random.choice(VALUES)(s)
        if found is not None and found.size <= LARGEST:
            s.values.append(found)


def branched(s: Scope) -> list[Any]:
    """Two values of `cond` or `switch`."""
    kinds = [s.pick() for _ in range(2)]
    types = [(v.shape, v.dtype) for v in kinds]
    given = [s.pick() for _ in range(s.random.randint(1, 3))]

    def branch(seed: float) -> Callable[..., Any]:
        def run(*inside: Any) -> Any:
            scope = s.inner(seed, *inside)
            grown(scope, scope.random.randint(0, 3))
            return tuple(fitted(scope, scope.pick(), *one) for one in types)

        return run

    count = s.random.randint(1, 3)
    branches = [branch(s.random.random()) for _ in range(count)]
    if count == 2:
        return list(lax.cond(fitted(s, s.pick(), (), "bool"), *branches, *given))
    return list(lax.switch(fitted(s, s.pick(), (), "int32"), branches, *given))


def carried(s: Scope, state: Sequence[Any], count: int) -> tuple[Any, ...]:
    """What a body makes of the values it carries: new ones, mixed ones, or each other."""
    grown(s, count)
    taken = []
    for old in state:
        same = [v for v in state if v.shape == old.shape and v.dtype == old.dtype]
        way = s.random.random()
        if way < 0.1:
            new = old
        elif way < 0.25:
            new = s.random.choice(same)
        else:
            new = fitted(s, s.pick(), old.shape, old.dtype)
            if is_float(old):
                new = jnp.clip(new, -3, 3) if way < 0.6 else (old + jnp.tanh(new)) / 2
            new = new.astype(old.dtype)
        taken.append(new)
    return tuple(taken)


def looped(s: Scope) -> list[Any]:
    """What a random loop gives."""
    state = tuple(s.pick() for _ in range(s.random.randint(1, 4)))
    kinds = (
        (_scan, _scan, _counted)
        if s.differentiable
        else (_scan, _scan, _counted, _counted, _while, _while, _mapped)
    )
    return list(s.random.choice(kinds)(s, state))


def _scan(s: Scope, state: tuple[Any, ...]) -> list[Any]:
    length = s.random.choice((0, 1, 2, 3, 4, 5, 8))
    scanned = [v for v in s.values if v.ndim and v.shape[0] > 0]
    xs: tuple[Any, ...] = ()
    if scanned and s.random.random() < 0.7:
        first = s.random.choice(scanned)
        length = first.shape[0]
        xs = (first, *[v for v in scanned if v.shape[0] == length][:2])
    count, seed = s.random.randint(1, s.most), s.random.random()
    gives = s.random.randint(0, 2)

    def body(carry: tuple[Any, ...], row: tuple[Any, ...]) -> tuple[Any, Any]:
        scope = s.inner(seed, *row, *carry)
        new = carried(scope, carry, count)
        ys = [scope.pick(lambda v: v.size <= 40) for _ in range(gives)]
        return new, [y for y in ys if y is not None]

    if s.random.random() < 0.2 and s.differentiable:
        body = jax.checkpoint(body)
    reverse, unroll = s.random.random() < 0.3, s.random.choice((1, 1, 1, 2, 3))
    last, rows = lax.scan(body, state, xs, length, reverse, unroll)
    return [*last, *rows]


def _counted(s: Scope, state: tuple[Any, ...]) -> list[Any]:
    """A counted loop; where derivatives are not asked for, its bounds may be computed."""
    low, high = s.random.choice((0, 0, 0, -2, 1)), s.random.choice((0, 1, 2, 3, 5, 9))
    count, seed = s.random.randint(1, s.most), s.random.random()

    def body(i: Any, carry: tuple[Any, ...]) -> tuple[Any, ...]:
        scope = s.inner(seed, *carry, jnp.asarray(i))
        return carried(scope, carry, count)

    if not s.differentiable and s.random.random() < 0.4:
        bound = s.pick(lambda v: is_integer(v) and v.ndim == 0)
        if bound is not None:
            return list(lax.fori_loop(0, bound.astype("int32") % 7, body, state))
    return list(lax.fori_loop(low, high, body, state))


def _while(s: Scope, state: tuple[Any, ...]) -> list[Any]:
    """A loop that ends when its count or a value that it carries says so."""
    limit = s.random.choice((0, 1, 3, 6))
    count, seed, ends = s.random.randint(1, s.most), s.random.random(), s.random.random()

    def goes_on(carry: tuple[Any, ...]) -> Any:
        scope = s.inner(ends, *carry[1:])
        more = carry[0] < limit
        if scope.random.random() < 0.6:
            grown(scope, scope.random.randint(0, 2))
            more &= fitted(scope, scope.pick(), (), "bool") | (carry[0] < limit // 2)
        return more

    def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        scope = s.inner(seed, *carry)
        return (carry[0] + 1, *carried(scope, carry[1:], count))

    return list(lax.while_loop(goes_on, body, (jnp.int32(0), *state)))


def _mapped(s: Scope, state: tuple[Any, ...]) -> list[Any]:
    """A function of every row of a value, in a loop."""
    rows = s.pick(lambda v: v.ndim and v.size)
    if rows is None:
        return list(state)
    seed = s.random.random()

    def one(row: Any) -> Any:
        scope = s.inner(seed, row)
        grown(scope, 3)
        return scope.pick(lambda v: v.size <= 40)

    return [lax.map(one, rows)]
