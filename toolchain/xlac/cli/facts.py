"""The option --facts: machine facts from a file or measured on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from xlac.options import host_facts
from xlac.support.measured_facts import Facts
from xlac_sdk.machine.system_facts import system_facts
from xlac_sdk.machine_facts import LIMITS, TUNABLE
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.choices import nearest

HOST = "host"
Command = TypeVar("Command", bound=Callable[..., Any])


def facts_option(function: Command) -> Command:
    """Adds --facts to commands that build."""
    return click.option(
        "--facts",
        default=None,
        metavar="FILE|host",
        help=(
            "Choose schedules by these facts of the machine: a YAML file, or `host`, the "
            "facts of this one that the system and `xlac doctor --measure` report."
        ),
    )(function)


def facts_given(text: str) -> Facts:
    """Facts by name, in order. Raises SourceError for an unreadable file, an unknown fact, and a
    value out of bounds.
    """
    if text == HOST:
        return tuple(sorted({**system_facts(), **dict(host_facts())}.items()))
    from xlac.spec.text import yaml

    source = yaml.read(Path(text))
    given = source.root.plain()
    if not isinstance(given, Mapping):
        problem = "it must be a mapping of facts by name, such as l2_bytes: 1048576"
        raise SourceError(Diagnostic("XL5042", problem, source.span(())))
    problems, limits = [], {**LIMITS, **TUNABLE}
    for name, value in given.items():
        limit = limits.get(name)
        if limit is None:
            hint = nearest(str(name), list(limits), f"they are {', '.join(limits)}")
            span = source.key_span((name,))
            problems.append(Diagnostic("XL5042", f"'{name}' is not a fact", span, hint))
        elif not limit.holds(value):
            problem = f"{name} must be {limit.wanted}, not {value!r}"
            problems.append(Diagnostic("XL5042", problem, source.span((name,))))
    if problems:
        raise SourceError(*problems)
    return tuple(sorted(given.items()))
