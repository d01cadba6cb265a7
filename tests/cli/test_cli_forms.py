"""The help of `xlac build` names every form of every target, though it imports none."""

from __future__ import annotations

import re

from xlac.cli.commands.build import FORMS
from xlac_sdk.host.registry import find


def test_the_help_names_every_form() -> None:
    told = {
        target: tuple(forms.split()) for forms, target in re.findall(r"([\w ]+) \((\w+)\)", FORMS)
    }
    assert told == {target: find(target).forms for target in ("c", "cpu", "cuda")}
