"""Every fuzz target takes its seeds, what was found before, and a few mutations; `make fuzz-inputs`
goes on from there.
"""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pytest
from harness.attempt import attempt, bounded
from harness.target import FOUND, Target, names, plain, seeds, target

SEEDS, MUTATIONS = 25, 25
# what a target's reader asks for
NEEDS = {"stablehlo_bytecode": "jaxlib", "exported_programs": "torch"}


@pytest.mark.parametrize("name", names())
def test_a_target_takes_its_seeds_and_mutations(name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    one, random = target(name), Random(name)
    taken = list(islice(seeds(name), len(list((FOUND / name).glob("*"))) + SEEDS))
    assert len(taken) >= 5
    for _ in range(MUTATIONS):
        data = random.choice(taken)
        made = one.mutate(data, random) if one.mutate and random.random() < 0.7 else None
        taken.append(plain(data, random) if made is None else made)
    findings = {found.key: found.text for data in taken if (found := attempt(one, data))}
    assert not findings, "\n\n".join(findings.values())


def wrong(data: bytes) -> None:
    match data:
        case b"key":
            raise KeyError("x")
        case b"assert":
            raise AssertionError
        case b"long":
            while True:
                with suppress(Exception):
                    sum(range(1000))
        case b"large":
            np.empty(1 << 30, np.int8)


@pytest.mark.parametrize("data", [b"key", b"assert", b"long", b"large"])
def test_what_is_no_error_of_ours_is_found(data: bytes) -> None:
    one = Target(wrong, list, seconds=0.1, memory=1 << 28)
    found = attempt(one, data)
    assert found is not None and found.data == data
    assert attempt(one, b"fine") is None


def test_bounds_end_with_the_input() -> None:
    with bounded(0.01, 1 << 28):
        pass
    start = time.process_time()
    while time.process_time() - start < 0.02:
        pass
    assert len(np.empty(1 << 29, np.int8)) == 1 << 29


def test_each_folder_of_findings_has_its_target() -> None:
    assert {folder.name for folder in Path(FOUND).iterdir() if folder.is_dir()} <= set(names())
