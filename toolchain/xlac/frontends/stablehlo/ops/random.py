"""Random bits and numbers."""

from __future__ import annotations

import math

from xlac.frontends.stablehlo.custom import CUSTOM_CALLS
from xlac.frontends.stablehlo.ops.dynamic import known
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.values import stored
from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.scalar import convert
from xlac.ops.tensor.leaf import RngBits
from xlac_sdk.dtypes import DType

ALGORITHMS = {"THREE_FRY": "threefry", "PHILOX": "philox", "DEFAULT": "philox"}
"""xlac's generator for each algorithm. DEFAULT is implementation-defined; XLA's CPU client uses
Philox.
"""
WORDS = {"threefry": 2, "philox": 3}


@operation("rng_bit_generator")
def rng_bit_generator(site: OperationSite) -> Built:
    """rng_bit_generator. For a Philox state of two words the upper half of the counter starts as
    the key and is not returned, as in XLA.
    """
    _, bits = site.results(2)
    if None in bits.shape:
        site.fail("gives bits of a known shape")
    return generated(site, tuple(n or 0 for n in bits.shape))


def dynamic_rng_bit_generator(site: OperationSite) -> Built:
    """The custom call by which JAX asks for bits of an open shape, which is an operand."""
    site.takes(2)
    return generated(site, known(site, 1))


CUSTOM_CALLS["stablehlo.dynamic_rng_bit_generator"] = dynamic_rng_bit_generator


def generated(site: OperationSite, shape: Shape) -> list[Node]:
    """The state after, and bits of a shape."""
    algorithm = ALGORITHMS.get(site.word("rng_algorithm"))
    if algorithm is None:
        site.fail(f"there is no algorithm {site.word('rng_algorithm')!r}")
    state = site.real(0).node
    _, bits = site.results(2)
    given = state.shape[0] if state.type.rank == 1 else 0
    if state.type.dtype is not DType.U64 or given not in (2, WORDS[algorithm]):
        site.fail(f"the state of {algorithm} is u64[{WORDS[algorithm]}], got {state.type}")
    if given != WORDS[algorithm]:
        state = build.concat([state, build.cut(state, 0, 0, 1)])
    element = bits.element
    if element.complex or element.dtype is DType.BOOL:
        site.fail("gives bits in integers or floats")
    whole = DType(f"u{element.dtype.bits}")
    new, words = build.results(Node.of(RngBits(algorithm, shape, whole), state))
    words = words if element.dtype is whole else Node.of(convert.Bitcast(element.dtype), words)
    return [build.cut(new, 0, 0, given), stored(words, element).node]


@operation("rng")
def rng(site: OperationSite) -> Built:
    """Uniform numbers in a range, or normal ones with a mean and a deviation. Every call starts
    with the same seed.

    The specification leaves the generator to implementations.
    """
    site.takes(3)
    a, b = site.number(0), site.number(1)
    shape, element = site.sizes, site.result.element
    seed = site.op.at % (1 << 32)
    count = math.prod(shape)
    if site.word("rng_distribution") == "NORMAL":
        radius = build.sqrt(build.mul(build.log(build.sub(1.0, _unit(seed, count))), -2.0))
        drawn = build.mul(
            radius, build.apply1("cos", build.mul(_unit(seed + (1 << 32), count), 2 * math.pi))
        )
        dtype = a.type.dtype
        return stored(
            build.add(build.mul(build.cast(build.reshape(drawn, shape), dtype), b), a), element
        )
    unit = build.reshape(_unit(seed, count), shape)
    if a.type.dtype.is_float:
        wide = build.cast(unit, a.type.dtype)
        uniform = build.add(a, build.mul(wide, build.sub(b, a)))
        return stored(build.select(build.compare(uniform, "lt", b), uniform, a), element)
    if a.type.dtype is DType.BOOL:
        return build.compare(unit, "lt", 0.5)
    span = build.cast(build.sub(b, a), DType.F64)
    steps = build.cast(
        build.apply1("floor", build.mul(build.cast(unit, DType.F64), span)), a.type.dtype
    )
    return stored(build.add(a, steps), element)


def _unit(seed: int, count: int) -> Node:
    """f32 numbers in [0, 1), with 24 random bits each."""
    state = build.constant([seed, 0], DType.U64)
    assert state.type == Type(DType.U64, (2,))
    _, bits = build.results(Node.of(RngBits("threefry", (count,), DType.U32), state))
    return build.mul(build.cast(build.apply1("shr", bits, 8), DType.F32), 2.0**-24)
