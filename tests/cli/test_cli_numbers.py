"""Options that take numbers refuse those that mean nothing, before a command begins."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from xlac.cli import root, status

CHECKED_LATER = {"xlac train"}  # tests/training/test_training_bad_values.py


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from commands(found, f"{name} {below}")


NUMBERS = {
    f"{name} {option.opts[-1]}": option
    for name, command in commands(root, "xlac")
    for option in command.params
    if isinstance(option.type, click.types.FloatParamType | click.types.IntParamType)
    and not (name in CHECKED_LATER and option.type is click.INT)
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_have_ranges(name: str) -> None:
    """None takes NaN, an infinity, or anything below 0."""
    option = NUMBERS[name]
    for text in ("nan", "inf", "-inf", "1e400", "-1", "-99999999999999999999", "many", ""):
        with pytest.raises(click.BadParameter):
            option.type.convert(text, option, None)


def test_there_are_such_options() -> None:
    assert len(NUMBERS) > 30 and "xlac run --timeout" in NUMBERS


@pytest.mark.parametrize(
    "arguments", [["--timeout", "nan"], ["--seed", "-1"], ["--max-compile-seconds", "inf"]]
)
def test_a_usage_error_names_the_option(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["run", "m.yaml", *arguments]) == 2
    assert arguments[0] in capsys.readouterr().err
