"""Random JAX programs of loops give what they give under jax.jit, on every CPU target.

`--all` runs 400 programs, the default run a few; others are run by
`python tests/jax_loops/test_jax_loops.py FIRST LAST [TARGETS]`.
"""

from __future__ import annotations

import sys

import pytest

jax = pytest.importorskip("jax")

from loop_checks import Differs, Expected, check
from loop_programs import make

BATCH = 5  # programs of one test
TARGETS = ("cpu", "c", "reference")


def differences(seed: int, targets: tuple[str, ...]) -> list[str]:
    """What differs in one program; programs whose results all depend on rounding have none."""
    program = make(seed)
    expected, found = Expected(program), []
    for target in targets:
        threads = 1 + (target == "cpu" and seed % 3 == 0)
        try:
            check(program, expected, target, threads=threads)
        except Differs as error:
            found.append(f"program {seed} on {target}: {error}")
    return found


@pytest.mark.sampled(40)
@pytest.mark.parametrize("first", range(0, 400, BATCH))
def test_random_loops_agree_with_jax(first: int) -> None:
    with jax.enable_x64(True):
        found = [text for n in range(first, first + BATCH) for text in differences(n, TARGETS)]
    assert not found, "\n".join(found)


if __name__ == "__main__":
    with jax.enable_x64(True):
        wanted = tuple(sys.argv[3].split(",")) if len(sys.argv) > 3 else TARGETS
        for number in range(int(sys.argv[1]), int(sys.argv[2])):
            for text in differences(number, wanted):
                print(text, flush=True)
