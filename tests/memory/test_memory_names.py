"""Messages about memory call a value as the user does: the plan's own names (t6) are for what no
node is behind.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xlac.driver import lower, specialized
from xlac.frontends.loader import load
from xlac.memory import limit
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Role, Slot
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import LimitError, Origin, VerifyError
from xlac_sdk.target import Request

SPECS = Path(__file__).parents[2] / "specs"
OWN = re.compile(r"'[a-z]+\d+'")
NAMES = ["mul_add_reduce", "loop_while", "loop_scan", "branch_cond", "lstm_stream", "bert_layer"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", ["cpu", "c"])
def test_every_slot_has_a_name_of_the_users(
    name: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporary memory too, and it is listed so when a limit is not met."""
    program = lower(
        specialized(load(SPECS / f"{name}.yaml")), find(target).target(Request(threads=2))
    ).program
    slots = [slot for slot in program.slots if slot.role in (Role.TEMPORARY, Role.STATE)]
    assert [slot.symbol for slot in slots if not slot.name and slot.origin is None] == []
    assert all(f"'{slot.symbol}'" != slot.label or slot.name == slot.symbol for slot in slots)
    monkeypatch.setattr(limit, "SHOWN", 1000)
    if limit.needed(program, True):
        with pytest.raises(LimitError) as found:
            limit.check(program, 0, True)
        written = {f"'{slot.name}'" for slot in program.slots} | {
            f"'{slot.origin.name}'" for slot in program.slots if slot.origin
        }
        assert {name for name in OWN.findall(str(found.value)) if name not in written} == set()


def test_what_messages_call_a_slot() -> None:
    def told(name: str, origin: Origin | None) -> str:
        from xlac_sdk.dtypes import DType

        return Slot(name, "t6", DType.F32, (1,), Role.TEMPORARY, origin=origin).label

    assert told("layer.h", Origin("layer.h")) == "'layer.h'"
    assert told("", Origin("layer.h")) == "the scratch memory of 'layer.h'"
    assert told("", None) == "'t6'", "of a program that a backend's author writes"


def test_the_verifier_names_the_node() -> None:
    from dataclasses import replace

    program = lower(
        specialized(load(SPECS / "lstm_stream.yaml")), find("cpu").target(Request())
    ).program
    slot = next(slot for slot in program.slots if slot.role is Role.TEMPORARY)
    with pytest.raises(VerifyError) as found:
        verify_program(replace(program, arena_bytes=0))
    assert slot.label in str(found.value) and f"'{slot.symbol}'" not in str(found.value)
