"""Values that loops write piece by piece: how long they live in nested loops."""

from __future__ import annotations

import pytest
from verify_pieces import A, B, T, U, copy, program

from xlac_sdk.programs.program import Repeat
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import VerifyError


@pytest.mark.parametrize(("counter", "apart"), [("m", True), ("n", False)])
def test_pieces_live_through_the_loop_that_moves_them(counter: str, apart: bool) -> None:
    """What an inner loop writes piece by piece is written anew in each turn of the outer one."""
    pieces = Repeat("m", 2, (copy(T, A, strides=((counter, 0),)),))
    turn = (copy(U, A), copy(B, U), pieces, copy(B, T))
    made = program((A, B, T, U), Repeat("n", 3, turn), arena=64)
    if apart:
        return verify_program(made)
    with pytest.raises(VerifyError, match="share memory while both are live"):
        verify_program(made)
