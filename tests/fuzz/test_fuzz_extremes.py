"""Every number of a model at its extremes, one at a time: each ends in a model or in an error of
ours, in little time and memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from zlib import crc32

import extremes
import pytest
from harness.attempt import attempt
from harness.target import target
from inputs import onnx_models, specs, stablehlo_text

# cases of a model that are run, but for --all
ONE_OF = {"onnx_models": 20, "stablehlo_text": 20, "specs": 30}
AT_MOST = {"onnx_models": 60, "stablehlo_text": 5, "specs": 400}
MODELS: dict[str, Callable[[], Iterable[bytes]]] = {
    "onnx_models": onnx_models.few_seeds,
    "stablehlo_text": stablehlo_text.seeds,
    "specs": specs.of_operations,
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.sampled(6)
def test_numbers_at_their_extremes(name: str, request: pytest.FixtureRequest) -> None:
    whole = request.config.getoption("--all")
    each = 1 if whole else ONE_OF[name]
    one = replace(target(name), seconds=5, memory=1 << 30)
    findings: dict[str, str] = {}
    tried = 0
    every = chain(one.seeds(), specs.of_operations(1) if name == "specs" else ())
    for data in every if whole else islice(MODELS[name](), AT_MOST[name]):
        for what, changed in getattr(extremes, name)(data):
            if crc32(f"{what} {len(data)}".encode()) % each == 0:
                tried += 1
                found = attempt(one, changed)
                if found:
                    findings.setdefault(found.key, f"{what}: {found.text}")
    assert tried > 30
    assert not findings, "\n\n".join(findings.values())


HOSTILE = Path(__file__).parent / "found"


@pytest.mark.parametrize(
    "name",
    [
        "split_to_sequence_of_2_31",
        "split_to_sequence_of_2_20",
        "tfidf_with_2_31_gaps",
        "unique_of_2_31_columns",
        "average_pool_of_2_31_borders",
        "trees_for_2_31_targets",
    ],
)
@pytest.mark.sampled(4)
def test_counts_come_before_work(name: str) -> None:
    """Small models that asked for gigabytes or minutes: now a second of work at most, and few
    bytes.
    """
    one = replace(target("onnx_models"), seconds=8, memory=400 << 20)
    assert attempt(one, (HOSTILE / "onnx_models" / name).read_bytes()) is None
