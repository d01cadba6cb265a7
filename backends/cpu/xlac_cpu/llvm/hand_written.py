"""Hand-written functions in LLVM IR: each is parsed, checked and optimised as its own module."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from xlac_cpu.hand_written import MARK
from xlac_cpu.llvm import passes
from xlac_cpu.machine import Machine
from xlac_sdk.source import Diagnostic, UnsupportedError


def is_by_hand(text: str) -> bool:
    """Whether a module's text has the header of a hand-written function."""
    return text[text.find("\n") + 1 :].startswith(MARK)


def module(text: str, machine: Machine, generator: Any, parse: Callable[[str], Any]) -> Any:
    """The optimised module, in which only the function that the program calls is external. `parse`
    parses LLVM IR. Raises UnsupportedError for invalid IR, or if the function is missing.
    """
    _, second, source = text.split("\n", 2)
    facts = json.loads(second.removeprefix(MARK))
    file, name = facts["file"], facts["name"]
    try:
        parsed = parse(source)
        parsed.triple = machine.triple
        parsed.data_layout = str(generator.target_data)
        parsed.verify()
    except RuntimeError as error:
        why = str(error)[:1000].replace("<string>:", f"{file}:").strip()
        problem = f"LLVM refuses {file}: {why}"
        raise UnsupportedError(Diagnostic("XL5113", problem, hint="mend the file")) from None
    defined = {f.name: f for f in parsed.functions if not f.is_declaration}
    wanted = f"void ({', '.join(facts['parameters'])})"
    if name not in defined:
        problem = f"{file} defines no function @{name}"
        known = ", ".join(sorted(defined)) or "none"
        raise UnsupportedError(Diagnostic("XL5113", problem, hint=f"it defines: {known}"))
    type = str(defined[name].global_value_type)
    if type != wanted:
        problem = f"@{name} in {file} is {type}, and is called as {wanted}"
        raise UnsupportedError(
            Diagnostic("XL5113", problem, hint="docs/CUSTOM_OPS.md has the order of parameters")
        )
    for one in defined.values():
        one.linkage = "internal"
    defined[name].linkage = "external"
    defined[name].name = facts["symbol"]
    passes.optimise_fully(parsed, machine)
    return parsed
