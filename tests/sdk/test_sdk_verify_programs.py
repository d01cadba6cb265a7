"""The verifier of programs: lifetimes, sizes, updates, and each rule broken once, by name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from verify_pieces import F32, ONE, OPEN, ZERO, A, B, K, N, P, T, U, X, Y, copy, program, slot

from xlac_sdk.conformance.steps import chain
from xlac_sdk.dims import Symbol
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Kernel, Load, Stmt, Store
from xlac_sdk.programs.program import (
    Argument,
    Case,
    Choice,
    Copy,
    Launch,
    Program,
    Repeat,
    Role,
    Slot,
    Step,
)
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import VerifyError


def updates(access: Access, slot: Slot) -> Launch:
    """A launch that adds to what its one parameter holds."""
    held = Buffer("held", F32, 4, access=access)
    body: tuple[Stmt, ...] = (Store(held, ZERO, build.apply(P.ADD, Load(held, ZERO), ONE)),)
    if access is Access.REREAD:
        body = (Store(held, ZERO, ONE), *body)
    return Launch(Kernel("adds", (held,), body), (Argument(slot),))


def chosen(size: Symbol, value: int, *steps: Step) -> Choice:
    return Choice((Case(((size, value),), steps),), ())


def overlapping() -> tuple[Step, ...]:
    return copy(T, A), copy(U, A), copy(B, T), copy(B, U)


def test_a_case_is_walked_at_its_own_sizes_only() -> None:
    """Four elements are right for calls of that size alone; what one path keeps alive does not bind
    another.
    """
    four = (copy(T, A), copy(B, T))
    verify_program(program((A, B, T, U), chosen(N, 4, *four), arena=64, sizes=(N,)))
    verify_program(
        program(
            (A, B, T, U),
            Choice((Case(((N, 4),), four),), (copy(U, A), copy(B, U))),
            arena=64,
            sizes=(N,),
        )
    )
    small = Case(((N, 4),), (Copy(Argument(B), Argument(A), OPEN),))
    verify_program(program((A, B), Choice((small,), ()), sizes=(N,)))


def test_a_planted_lifetime_is_caught_by_name() -> None:
    """`b` of the chain is moved onto `a`, which is still read."""
    good = chain().program
    verify_program(good)
    planted = {
        s: Slot(s.name, s.symbol, s.dtype, s.shape, s.role, 0) for s in good.slots if s.name == "b"
    }

    def moved(step: Step) -> Step:
        assert isinstance(step, Launch)
        return Launch(
            step.kernel, tuple(Argument(planted.get(a.slot, a.slot)) for a in step.arguments)
        )

    slots = tuple(planted.get(s, s) for s in good.slots)
    bad = Program("p", good.inputs, good.outputs, slots, tuple(map(moved, good.steps)), {}, 128)
    with pytest.raises(
        VerifyError, match=r"slots 'a' .* and 'b' .* share memory while both are live"
    ):
        verify_program(bad)


def test_a_value_from_before_a_loop_lives_through_it() -> None:
    steps = (copy(T, A), Repeat("n", 3, (copy(B, T), copy(U, A), copy(B, U))))
    with pytest.raises(VerifyError, match="share memory while both are live"):
        verify_program(program((A, B, T, U), *steps, arena=64))


def test_what_is_updated_holds_something() -> None:
    """A copy, a launch or a state that was there before; a kernel that reads only what it wrote
    needs none.
    """
    S = Slot("s", "s", F32, (4,), Role.STATE)
    add = updates(Access.UPDATE, T)
    verify_program(program((A, B, T), copy(T, A), add, copy(B, T), arena=64))
    verify_program(program((B, T), updates(Access.REREAD, T), add, copy(B, T), arena=64))
    verify_program(replace(program((B, S), updates(Access.UPDATE, S), copy(B, S)), state_bytes=64))
    verify_program(program((A, B, T), copy(T, A), Repeat("n", 3, (add,)), copy(B, T), arena=64))


def test_memory_may_be_given_on() -> None:
    verify_program(program((A, B, T, U), copy(T, A), copy(B, T), copy(U, A), copy(B, U), arena=64))


@pytest.mark.parametrize(
    ("message", "bad"),
    [
        (
            "'t' takes bytes 64 to 80 of a block of 64",
            program((A, slot("t", Role.TEMPORARY, offset=64)), arena=64),
        ),
        (
            "at byte 8 is not aligned to 64",
            program((A, slot("t", Role.TEMPORARY, offset=8)), arena=64),
        ),
        ("two slots are called 'a'", program((A, slot("a", Role.OUTPUT)))),
        ("reads 't' before anything was written there", program((B, T), copy(B, T), arena=64)),
        (
            "kernel adds updates 't' before anything was written there",
            program((B, T), updates(Access.UPDATE, T), copy(B, T), arena=64),
        ),
        (
            "kernel adds updates 'b' before anything was written there",
            program((B,), updates(Access.UPDATE, B)),
        ),
        (
            "updates 't' before",
            program(
                (A, B, T),
                Repeat("n", 3, (updates(Access.UPDATE, T), copy(T, A))),
                copy(B, T),
                arena=64,
            ),
        ),
        (
            "updates 't' before",
            program(
                (A, B, T), chosen(N, 4, updates(Access.UPDATE, T), copy(B, T)), arena=64, sizes=(N,)
            ),
        ),
        ("writes 'a', which is only read", program((A, B), copy(A, A))),
        ("reaches elements 2 to 6 of 'b'", program((A, B), copy(B, A, at=2))),
        (
            "reaches elements 0 to 8 of 'b'",
            program((A, B), Repeat("n", 3, (copy(B, A, strides=(("n", 2),)),))),
        ),
        (
            "moves 'b' with 'm', which no loop around counts",
            program((A, B), copy(B, A, strides=(("m", 2),))),
        ),
        ("is given 'b' twice, and writes it", program((A, B), copy(B, A), copy(B, B))),
        ("uses 'b', which the program does not declare", program((A,), copy(B, A))),
        ("constant 'c' has no data", program((slot("c", Role.CONSTANT),))),
        (
            "takes 2 buffers, not 1",
            program((A, B), Launch(Kernel("k", (X, Y), ()), (Argument(A),))),
        ),
        ("a case is for 'k', which is not a size", program((A, B), chosen(K, 4))),
        ("a case is for n=9, which no call has", program((A, B), chosen(N, 9), sizes=(N,))),
        ("a case is for n=3, which no call has", program((A, B), chosen(N, 3), sizes=(N,))),
        ("a case must name a size", program((A, B), Choice((Case((), ()),), ()), sizes=(N,))),
        (
            "reads 't' before anything was written there",
            program((A, B, T), chosen(N, 4, copy(B, T)), arena=64, sizes=(N,)),
        ),
        (
            "share memory while both are live",
            program((A, B, T, U), chosen(N, 4, *overlapping()), arena=64, sizes=(N,)),
        ),
        (
            "share memory while both are live",
            program((A, B, T, U), Choice((), overlapping()), arena=64),
        ),
        (
            "reaches elements 0 to 8 of 'a'",
            program((A, B), chosen(N, 8, Copy(Argument(B), Argument(A), OPEN)), sizes=(N,)),
        ),
        ("is not an identifier", program((Slot("a", "a b", F32, (4,), Role.INPUT),))),
    ],
)
def test_a_broken_program_is_named(message: str, bad: Program) -> None:
    with pytest.raises(VerifyError) as error:
        verify_program(bad)
    assert message in str(error.value)
