"""Renames tensors by regular expressions, which come from a file and must not hang the compiler."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from xlac.spec.report import Place, Report

MAX_PATTERN = 500
# unbounded quantifiers in a pattern: matching a name of n characters costs at most n to that power
MAX_REPEATS = 4
MAX_NAME = 300
SECONDS = 5.0  # for all names and rules
_REPEATS = (
    codes.MAX_REPEAT,
    codes.MIN_REPEAT,
    getattr(codes, "POSSESSIVE_REPEAT", codes.MAX_REPEAT),
)


def renamed(
    names: Iterable[str], rules: dict[str, str], place: Place, report: Report
) -> dict[str, str]:
    """New name -> name in the file. All rules are applied in order, wherever they match; problems
    are reported.
    """
    compiled = []
    for pattern, text in rules.items():
        at = place.at(pattern)
        if (wrong := unsafe(pattern)) is not None:
            report.add("XL3008", f"this regular expression {wrong}", at.key)
            continue
        rule = re.compile(pattern)
        try:
            rule.sub(text, "", count=1)
            re._parser.parse_template(text, rule)  # type: ignore[attr-defined]
        except (re.error, IndexError) as error:
            report.add("XL3008", f"the replacement does not fit the expression: {error}", at.span)
            continue
        compiled.append((rule, text, at))
    used: set[int] = set()
    originals: dict[str, str] = {}
    deadline = time.monotonic() + SECONDS
    for name in names:
        new = name
        for number, (rule, text, at) in enumerate(compiled):
            if len(new) > MAX_NAME:
                break
            if time.monotonic() > deadline:
                report.add("XL3008", f"renaming takes longer than {SECONDS:g} s", at.key)
                return originals
            changed, count = rule.subn(text, new)
            if count:
                used.add(number)
                new = changed
        if new in originals:
            report.add(
                "XL3009", f"tensors {originals[new]!r} and {name!r} both become {new!r}", place.key
            )
        originals[new] = name
    for number, (rule, _, at) in enumerate(compiled):
        if number not in used:
            report.add(
                "XL3011",
                f"this rule renames no tensor: {rule.pattern!r}",
                at.key,
                "remove it, or correct it",
            )
    return originals


def unsafe(pattern: str) -> str | None:
    """The reason why a pattern is rejected, or None."""
    if len(pattern) > MAX_PATTERN:
        return f"has {len(pattern)} characters; at most {MAX_PATTERN} are allowed"
    try:
        tree = parser.parse(pattern)
        re.compile(pattern)
    except re.error as error:
        return f"is wrong: {error}"
    except (RecursionError, OverflowError):
        return "is nested too deeply"
    return _walk(tree, [0], False)


def _walk(tree: Any, repeats: list[int], inside: bool) -> str | None:
    for code, argument in tree:
        if code in _REPEATS:
            _, high, body = argument
            many = high is codes.MAXREPEAT or high > 16
            if many and inside:
                return "repeats inside a repetition, which can take forever"
            repeats[0] += many
            if repeats[0] > MAX_REPEATS:
                return f"has more than {MAX_REPEATS} open repetitions, which can take forever"
            wrong = _walk(body, repeats, inside or high > 1)
        elif code is codes.BRANCH:
            wrong = next((w for one in argument[1] if (w := _walk(one, repeats, inside))), None)
        elif code is codes.SUBPATTERN:
            wrong = _walk(argument[3], repeats, inside)
        elif code in (codes.GROUPREF, codes.GROUPREF_EXISTS, codes.ASSERT, codes.ASSERT_NOT):
            return "refers back or looks around, which can take forever"
        elif code is getattr(codes, "ATOMIC_GROUP", None):
            wrong = _walk(argument, repeats, inside)
        else:
            wrong = None
        if wrong:
            return wrong
    return None
