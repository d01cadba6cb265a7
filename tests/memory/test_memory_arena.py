"""Buffers alive together never overlap, and the arena is close to the least possible."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from xlac.memory.arena import ALIGN, LiveRange, live_bound, pack

SPANS = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 40), st.integers(0, 10)).map(
        lambda t: LiveRange(t[0], t[1], t[1] + t[2])
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(SPANS, st.booleans())
def test_buffers_alive_together_do_not_overlap(spans: list[LiveRange], tight: bool) -> None:
    layout = pack(spans, live_bound(spans) if tight else None)
    for i, a in enumerate(spans):
        assert layout.offsets[i] % ALIGN == 0
        assert layout.offsets[i] + a.nbytes <= layout.nbytes
        for j, b in enumerate(spans[:i]):
            if a.nbytes and b.nbytes and a.first <= b.last and b.first <= a.last:
                before = layout.offsets[i] + a.nbytes <= layout.offsets[j]
                assert before or layout.offsets[j] + b.nbytes <= layout.offsets[i]


@settings(max_examples=200, deadline=None)
@given(SPANS)
def test_the_arena_is_never_below_the_bound(spans: list[LiveRange]) -> None:
    layout = pack(spans)
    assert layout.bound == live_bound(spans) <= layout.nbytes


def test_a_chain_needs_two_buffers() -> None:
    spans = [LiveRange(1000, step, step + 1) for step in range(100)]
    assert pack(spans).nbytes == 2 * 1024


def test_what_did_not_fit_is_placed_earlier_the_next_time() -> None:
    """A recurrence in layers: each writes a long row of products, and small results that are put
    together in the end.

    Largest first, the rows of two layers get one place and what is put together the other end, with
    the small results above it: 16 + 5 + 5.
    """
    unit, layers = 64 * 32, list[LiveRange]()
    for start in (0, 20, 40):
        layers += [
            LiveRange(5 * unit, start, start + 1),
            LiveRange(16 * unit, start + 1, start + 18),
        ]
        layers += [LiveRange(64 * 10, start + step, start + 20) for step in range(2, 18)]
    layout = pack(layers)
    assert layout.nbytes <= layout.bound * 1.01


def test_many_buffers_are_packed_in_order_of_time() -> None:
    spans = [LiveRange(64 * (1 + i % 7), i, i + 3) for i in range(20_000)]
    layout = pack(spans)
    assert layout.nbytes <= 1.3 * layout.bound


def training_step(seed: int, layers: int) -> list[LiveRange]:
    """What a training step keeps: activations until their gradients, of which some are freed and
    made again, scratch memory of forward kernels, and gradients.
    """
    draw, spans, end = Random(seed), list[LiveRange](), 6 * layers
    for layer in range(layers):
        size = draw.choice([1, 2, 4, 8]) * 64 * draw.randint(3, 30)
        now, back = 2 * layer, end - 2 * layer
        spans.append(LiveRange(size * draw.randint(1, 3) // 2, now, now + 1))
        spans.append(LiveRange(size, back - 1, back + draw.randint(0, 2)))
        spans.append(LiveRange(size // 4, back, back + draw.randint(1, 40)))
        if draw.random() < 0.5:
            spans.append(LiveRange(size, now, back))
        else:
            spans.append(LiveRange(size, now, now + draw.randint(1, 4)))
            spans.append(LiveRange(size, back - draw.randint(1, 8), back))
    return spans


def test_a_limit_at_what_is_alive_at_once_is_met() -> None:
    gaps = 0
    for seed in range(6):
        spans = training_step(seed, 50)
        bound = live_bound(spans)
        gaps += pack(spans).nbytes > bound
        assert pack(spans, bound).nbytes == bound
    assert gaps >= 3  # so the limit is what made the difference


def test_a_limit_below_what_is_alive_at_once_changes_nothing() -> None:
    spans = training_step(0, 50)
    assert pack(spans, live_bound(spans) - ALIGN) == pack(spans)
