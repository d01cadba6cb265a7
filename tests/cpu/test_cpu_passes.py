"""LLVM's objects live as long as they may: builders of passes, and modules with their contexts."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import pytest
from allocated import KNOWN, allocated

from xlac_cpu.emit.function import PRODUCTS
from xlac_cpu.llvm import generator, objects, passes
from xlac_cpu.llvm.host import host
from xlac_cpu.machine import Machine

REFUSED = """\
define i32 @used_before() {
  %a = add i32 %b, 1
  %b = add i32 1, 1
  ret i32 %a
}
"""


SMALL = """\
define i32 @small(i32 %a) {
  %p = alloca i32
  store i32 %a, ptr %p
  %b = load i32, ptr %p
  ret i32 %b
}
"""


def optimised(optimise: Callable[[Any, Machine], None]) -> str:
    with objects.Modules() as modules:
        module = modules.parsed(SMALL)
        optimise(module, host())
        return str(module)


@pytest.mark.parametrize("optimise", [passes.simplify, passes.shrink, passes.optimise_fully])
@pytest.mark.skipif(not KNOWN, reason="this C library does not tell what is allocated")
def test_optimising_leaves_little_memory_behind(optimise: Callable[[Any, Machine], None]) -> None:
    """A builder leaves 1.5 KB and a manager that is not freed 60 KB, were each module to have its
    own.
    """
    for _ in range(passes.DEFAULT_RUNS + 3):
        assert "alloca" not in optimised(optimise)
    before, turns = allocated(), 5 * passes.DEFAULT_RUNS
    for _ in range(turns):
        optimised(optimise)
    assert allocated() - before < 400 * turns


@pytest.mark.parametrize(
    ("optimise", "runs"),
    [(passes.simplify, passes.RUNS), (passes.optimise_fully, passes.DEFAULT_RUNS)],
)
def test_a_builder_serves_a_bounded_number_of_modules(
    optimise: Callable[[Any, Machine], None], runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run adds callbacks to a builder that all its later runs call."""
    builders: list[tuple[Any, ...]] = []
    real = passes._builder

    def builder(*facts: Any) -> Any:
        builders.append(facts)
        return real(*facts)

    monkeypatch.setattr(passes, "_builder", builder)
    for _ in range(3 * runs):
        optimised(optimise)
    counted = Counter(builders)
    assert max(counted.values()) <= runs and len(counted) <= 4


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


@pytest.mark.parametrize("kind", ["", f'"{PRODUCTS}"'])
def test_products_are_not_combined(kind: str) -> None:
    text = f"define i32 @f(i32 %a) {kind} {{\n  %b = mul i32 %a, 8\n  ret i32 %b\n}}\n"
    with objects.Modules() as modules:
        module = modules.parsed(text)
        passes.simplify(module, host())
        assert ("mul" in str(module)) is bool(kind)


LOOP = """\
define void @f(ptr %%p, i64 %%n) %s {
entry:
  br label %%loop
loop:
  %%i = phi i64 [ 0, %%entry ], [ %%next, %%loop ]
  %%at = mul i64 %%i, 12
  %%a = getelementptr i8, ptr %%p, i64 %%at
  store volatile i8 0, ptr %%a
  %%next = add i64 %%i, 1
  %%more = icmp slt i64 %%next, %%n
  br i1 %%more, label %%loop, label %%out
out:
  ret void
}
"""


def loop(modules: objects.Modules) -> Any:
    """The optimised module of a loop that multiplies its counter by 12."""
    header = f'; xlac {json.dumps(asdict(host()))}\ntarget triple = "{host().triple}"\n'
    return objects.optimise(header + LOOP % "", host(), modules)


@pytest.mark.skipif(not host().is_x86, reason="the instruction is x86's")
def test_loops_of_products_are_not_strength_reduced() -> None:
    with objects.Modules() as modules:
        reduced, not_reduced = (
            generator.assembly(loop(modules), host(), wanted) for wanted in (True, False)
        )
        assert "lea" not in reduced and "lea" in not_reduced  # 3 of the times 12


def test_other_users_of_llvm_see_no_option_of_ours() -> None:
    """Nor does what one thread generates depend on what others do."""
    with objects.Modules() as modules, ThreadPoolExecutor(4) as pool:
        each = [loop(modules) for _ in range(10)]
        code = generator.code_generator(host())
        plain = bytes(code.emit_object(each[0]))
        made = list(
            pool.map(lambda at: generator.machine_code(each[at], host(), at % 2 == 0), range(1, 9))
        )
        assert len(set(made)) == 2 and [code == plain for code in made] == [False, True] * 4
        assert bytes(code.emit_object(each[9])) == plain
