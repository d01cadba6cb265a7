"""Which smaller temporaries a program within a memory limit has."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from xlac.memory.limit import MemoryLimitError
from xlac.recompute.smaller_temporaries import Temporaries, noted, with_smaller_temporaries
from xlac.training.reports.memory_report import cost
from xlac_sdk.programs.program import Program
from xlac_sdk.source import Diagnostic

EMPTY = Program("empty", (), (), (), (), {})
USUAL, EXACT = Temporaries(), Temporaries(100)
ANY, LESS = Temporaries(160, True), Temporaries(100, True)
Factors = dict[Temporaries, float | None]  # how much longer a program takes; None: does not fit


def chosen(factors: Factors, fast: bool = False) -> tuple[Temporaries, list[Temporaries]]:
    """The choice, and what was lowered for it."""
    tried: list[Temporaries] = []

    def lowered(small: Temporaries) -> SimpleNamespace:
        tried.append(small)
        factor = factors[small]
        if factor is None:
            error = MemoryLimitError(Diagnostic("XL4020", str(small)))
            error.nbytes, error.room = 5000 - small.nbytes - small.reorders_sums, 1600
            raise error
        facts = {"recomputed": {"factor": factor}}
        return SimpleNamespace(program=replace(EMPTY, facts=facts), small=small)

    made, small = with_smaller_temporaries(lowered, fast)
    assert made.small == small
    return small, tried


@pytest.mark.parametrize(
    ("factors", "want", "tried"),
    [
        ({USUAL: 1.5}, USUAL, 1),
        ({USUAL: None, EXACT: 1.2}, EXACT, 2),
        ({USUAL: None, EXACT: 1.3, ANY: 1.1}, ANY, 3),
        ({USUAL: None, EXACT: 1.3, ANY: 1.4, LESS: 1.5}, EXACT, 4),
        ({USUAL: None, EXACT: 1.3, ANY: None, LESS: 1.1}, LESS, 4),
        ({USUAL: None, EXACT: None, ANY: 1.4, LESS: 1.5}, ANY, 4),
    ],
)
def test_sums_keep_their_order_unless_that_takes_long(
    factors: Factors, want: Temporaries, tried: int
) -> None:
    small, all_tried = chosen(factors)
    assert (small, len(all_tried)) == (want, tried)


def test_fast_models_are_lowered_once() -> None:
    assert chosen({USUAL: None, EXACT: 1.5}, fast=True) == (EXACT, [USUAL, EXACT])


def test_the_error_is_that_of_the_program_which_needs_least() -> None:
    with pytest.raises(MemoryLimitError) as caught:
        chosen({USUAL: None, EXACT: None, ANY: None, LESS: None})
    assert caught.value.nbytes == 5000 - 161


@pytest.mark.parametrize("small", [EXACT, LESS])
def test_another_order_of_sums_is_told(small: Temporaries) -> None:
    program = noted(EMPTY, small)
    told = cost(program.facts["recomputed"])
    assert "no array above 100 bytes" in told
    assert ("sums are in another order" in told) == small.reorders_sums
