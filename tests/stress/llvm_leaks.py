"""What llvmlite itself leaves in memory, without any of xlac:
`PYTHONPATH=tests .venv/bin/python tests/stress/llvm_leaks.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import llvmlite
import llvmlite.binding as llvm
from allocated import allocated
from llvmlite.binding.newpassmanagers import NewPassManager

TURNS = 500
TEXT = "define i32 @f(i32 %a) {\n  %b = add i32 %a, 1\n  ret i32 %b\n}\n"

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
machine = llvm.Target.from_default_triple().create_target_machine()
options = llvm.create_pipeline_tuning_options(speed_level=2)
shared, passes = llvm.create_pass_builder(machine, options), llvm.create_new_module_pass_manager()
passes.add_instruction_combine_pass()


def module(use: Callable[[llvm.ModuleRef], object]) -> Callable[[], None]:
    def turn() -> None:
        context = llvm.create_context()
        made = llvm.parse_assembly(TEXT, context)
        use(made)
        made.close()
        context.close()

    return turn


def manager(free: Callable[[llvm.ModulePassManager], object]) -> None:
    made = llvm.create_pass_builder(machine, options).getModulePassManager()
    free(made)
    made.detach()


KINDS: dict[str, Callable[[], object]] = {
    "a module, parsed": module(lambda made: None),
    "a builder of passes": lambda: llvm.create_pass_builder(machine, options).close(),
    "a builder and a manager, closed": lambda: manager(llvm.ModulePassManager.close),
    "a builder and a manager, freed": lambda: manager(NewPassManager._dispose),
    "a run of passes, with one builder": module(lambda made: passes.run(made, shared)),
    "an object": module(machine.emit_object),
}

if __name__ == "__main__":
    print(f"llvmlite {llvmlite.__version__}: bytes that are not freed, of {TURNS} turns")
    for name, turn in KINDS.items():
        for _ in range(TURNS):
            turn()
        before = allocated()
        for _ in range(TURNS):
            turn()
        print(f"{name:36} {(allocated() - before) / TURNS:9.1f}")
