"""Validates options that are chosen from a set of words: one wording for every option, with the
nearest word as a hint.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlac_sdk.source import Diagnostic, SourceError


def chosen(option: str, value: object, words: Iterable[str], code: str = "XL6007") -> str:
    """The value, which must be one of `words`. Raises SourceError for any other."""
    known = list(words)
    if isinstance(value, str) and value in known:
        return value
    raise unknown_word(f"{option} must be {_either(known)}, not {value!r:.80}", value, known, code)


def unknown_word(problem: str, value: object, words: Iterable[str], code: str) -> SourceError:
    """An error whose hint is the nearest word, or else lists all."""
    known = [word for word in words if word]
    name = value.lower() if isinstance(value, str) else ""
    # three letters of four: cpu is no slip of gpu
    hint = nearest(name, known, f"there are: {', '.join(known) or 'none'}", cutoff=0.75)
    return SourceError(Diagnostic(code, problem, hint=hint))


def nearest(
    name: str, words: Iterable[str], otherwise: str | None = None, cutoff: float = 0.6
) -> str:
    """A hint for a name that is none of `words`: the nearest one, else `otherwise`, or
    all of them.
    """
    known = list(words)
    if close := similar(name, known, cutoff=cutoff):
        return f"did you mean '{close[0]}'?"
    return f"there are {', '.join(known)}" if otherwise is None else otherwise


def similar(name: str, words: Iterable[str], count: int = 1, cutoff: float = 0.6) -> list[str]:
    """The words with the spelling most similar to a name, at most `count`; a `cutoff` of 1 requires
    equality.
    """
    from difflib import get_close_matches  # imported here, as it takes milliseconds

    return get_close_matches(name, list(words), count, cutoff)


def _either(words: list[str]) -> str:
    known = [word for word in words if word]
    return " or ".join(filter(None, [", ".join(known[:-1]), *known[-1:]]))
