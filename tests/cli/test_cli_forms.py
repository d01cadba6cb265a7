"""The help of `xlac build` names every form of every target that is installed; no other help loads
one.
"""

from __future__ import annotations

import re

import pytest

from xlac.cli import status
from xlac_sdk.host.registry import find, installed


def test_the_help_names_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["build", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    (said,) = re.findall(r"What to write, with commas: (.*?)\.", text)
    listed = {
        target: tuple(forms.split()) for forms, target in re.findall(r"([\w ]+) \((\w+)\)", said)
    }
    assert listed == {name: find(name).forms for name in installed() if find(name).forms}
    assert {"c", "cpu"} <= set(listed)
