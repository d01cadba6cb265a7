"""Random bits: the kernels against the meaning, and the meaning against the generators' published
vectors.
"""

from __future__ import annotations

import numpy as np
import pytest
from loops_harness import MASKED
from order_harness import check, check_sample, label

from xlac.ir.op import Sample
from xlac.ir.types import Type
from xlac.ops import random
from xlac.ops.tensor.leaf import RngBits
from xlac_sdk.dtypes import DType

U32, U64 = DType.U32, DType.U64


@pytest.mark.parametrize(
    "sample", [s for s in RngBits.samples() if np.prod(s.attributes["shape"]) < 1000], ids=label
)
@pytest.mark.sampled(2)
def test_samples(sample: Sample) -> None:
    check_sample(RngBits, sample)


@pytest.mark.parametrize("algorithm", ["threefry", "philox"])
@pytest.mark.parametrize("dtype", [DType.U8, U32, U64])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 63, 64, 65, 130])
@pytest.mark.sampled(12)
def test_lengths(count: int, dtype: DType, algorithm: str) -> None:
    state = Type(U64, (random.ALGORITHMS[algorithm].state,))
    check(RngBits(algorithm=algorithm, shape=(count,), dtype=dtype), [state])


@pytest.mark.parametrize("algorithm", ["threefry", "philox"])
def test_counter_carries(algorithm: str) -> None:
    """The low half of the counter runs over in the middle of the stream."""
    words = random.ALGORITHMS[algorithm].state

    def draw(type_: Type, number: int, rng: np.random.Generator) -> np.ndarray:
        return np.array([7, 2**64 - 3, 2**64 - 1][:words], np.uint64)

    check(RngBits(algorithm=algorithm, shape=(50,), dtype=U32), [Type(U64, (words,))], draw=draw)


def test_threads_share_a_long_stream() -> None:
    check(
        RngBits(algorithm="philox", shape=(40001,), dtype=U32), [Type(U64, (3,))], targets=(MASKED,)
    )


def test_published_vectors() -> None:
    """Random123's known answers for Threefry-2x32-20 and Philox-4x32-10."""
    on = random.Numbers()
    u32 = lambda *values: tuple(np.uint32(v) for v in values)
    with np.errstate(over="ignore"):
        found = random.threefry(u32(0x13198A2E, 0x03707344), u32(0x243F6A88, 0x85A308D3), on)
        assert [int(w) for w in found] == [0xC4923A9C, 0x483DF7A0]
        key, counter = (
            u32(0xA4093822, 0x299F31D0),
            u32(0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        )
        found = random.philox(key, counter, on)
        assert [int(w) for w in found] == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def test_threefry_lays_its_words_out_as_xla_does() -> None:
    """Both words of a block are neighbours along the first even axis, and along the longest of odd
    ones.
    """
    state = np.array([5, 9], np.uint64)
    _, bits = RngBits(algorithm="threefry", shape=(4, 3), dtype=U32).evaluate(state)
    new, stream = random.words("threefry", state, 9)
    for i in range(4):
        for j in range(3):
            assert bits[i, j] == stream[(i // 2) * 3 + j, i % 2]
    after, bits = RngBits(algorithm="threefry", shape=(3, 5), dtype=U32).evaluate(state)
    for i in range(3):
        for j in range(5):
            assert bits[i, j] == stream[i * 3 + j // 2, j % 2]
    assert after[1] == new[1] == 9 + 9


@pytest.mark.parametrize(
    "shape", [(4, 3), (3, 5), (2, 70), (5, 70, 3), (7, 3, 41), (1, 9, 9), (6, 1, 33)]
)
@pytest.mark.parametrize("dtype", [DType.U16, U32])
@pytest.mark.sampled(6)
def test_shapes_of_threefry(shape: tuple[int, ...], dtype: DType) -> None:
    check(RngBits(algorithm="threefry", shape=shape, dtype=dtype), [Type(U64, (2,))])


def test_threads_share_planes() -> None:
    check(
        RngBits(algorithm="threefry", shape=(64, 333), dtype=U32),
        [Type(U64, (2,))],
        targets=(MASKED,),
    )


# the state after, the first two and the last two elements, as XLA's CPU compiler computes them (JAX
# 0.10.2)
XLA = [
    ("threefry", (4, 3), U32, [1311768467463790321, 3], [2456761482, 1423087738],
     [659996909, 537262323]),
    ("threefry", (3, 5), DType.U16, [1311768467463790321, 6], [13450, 2976], [55268, 51433]),
    ("threefry", (7,), U64, [1311768467463790321, 4], [3132266325115614346, 2382203040918837370],
     [2307524109256724045, 15518765593474287927]),
    ("philox", (4, 3), U32, [1311768467463790321, 0, 78], [4179464679, 2904011107],
     [3409372535, 3152359187]),
    ("philox", (7,), U64, [1311768467463790321, 1, 78], [12472632735965221351, 275553959538975754],
     [13539279616819520887, 4954822838776083839]),
]  # fmt: skip


@pytest.mark.parametrize("case", XLA, ids=lambda c: f"{c[0]} {c[1]} {c[2]}")
def test_bits_are_those_of_xla(
    case: tuple[str, tuple[int, ...], DType, list[int], list[int], list[int]],
) -> None:
    algorithm, shape, dtype, state, first, last = case
    given = np.array([0x123456789ABCDEF1, 2**64 - 3, 77][: len(state)], np.uint64)
    after, bits = RngBits(algorithm=algorithm, shape=shape, dtype=dtype).evaluate(given)
    assert after.tolist() == state
    assert bits.ravel()[:2].tolist() == first and bits.ravel()[-2:].tolist() == last
