"""LLVM's objects live as long as they may: builders of passes, and modules with their contexts."""

from __future__ import annotations

import gc
import json
from collections import Counter
from dataclasses import asdict

import pytest

from xlac_cpu.llvm import objects
from xlac_cpu.llvm.host import host

REFUSED = """\
define i32 @used_before() {
  %a = add i32 %b, 1
  %b = add i32 1, 1
  ret i32 %a
}
"""


def test_a_builder_serves_a_bounded_number_of_functions() -> None:
    """Each run adds callbacks to a builder that all its later runs call."""
    made = [objects.function_passes(host()) for _ in range(3 * objects.RUNS)]
    runs = Counter(id(builder) for _, builder in made)  # `made` keeps them, so no id is used twice
    assert max(runs.values()) <= objects.RUNS
    assert len(runs) <= 4


def test_modules_are_freed_before_their_context_whatever_the_garbage_collector_does() -> None:
    """An error refers to its frames, and so to modules, and may be garbage in a circle; a context
    that is collected before its modules ends the process.
    """
    text = f"; xlac {json.dumps(asdict(host()))}\n{REFUSED}"
    for _ in range(20):
        with pytest.raises(objects.CodeError) as caught:
            objects.compile_here(text, host())
        caught.value.__notes__ = [caught]  # type: ignore[attr-defined]  # a circle
        del caught
        gc.collect()
