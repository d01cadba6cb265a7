"""Converts a YAML parser's syntax errors to diagnostics in our own words, with a hint."""

from __future__ import annotations

from pathlib import Path

import yaml

from xlac_sdk.source import Diagnostic, Span


def syntax_error(error: yaml.MarkedYAMLError, file: Path, text: str) -> Diagnostic:
    """The diagnostic of a parser's error in `text`, at the place that the parser names."""
    mark = error.problem_mark or error.context_mark
    span = Span(file, mark.line + 1, mark.column + 1) if mark else None
    problem = (error.problem or "this is not YAML").replace("\t", "a tab")
    if problem == "mapping values are not allowed in this context":
        problem = "a ':' is not allowed here"
    hint = ""
    lines = text.split("\n")
    before = lines[mark.line][: mark.column + 1] if mark and mark.line < len(lines) else ""
    if "\t" in before and not before.strip():
        problem, hint = "a tab indents this line", "indent with spaces"
    elif "flow" in (error.context or "") or "flow" in problem:
        hint = 'quote text with brackets or commas inside {…} and […]: {x: "f32[B, 4]"}'
        if mark and error.context_mark and error.context_mark.line < mark.line:
            hint = f"the bracket on line {error.context_mark.line + 1} is not closed"
    elif problem.startswith("found undefined alias"):
        hint = "write &name before the value that *name repeats"
    elif "cannot start any token" in problem:
        hint = "quote text that starts with @, ` or %"
    return Diagnostic("XL1004", problem, span, hint)
