"""Checks what a user chose among words: one wording for every option, with the nearest word that
there is.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlac_sdk.source import Diagnostic, SourceError


def chosen(option: str, value: object, words: Iterable[str], code: str = "XL6007") -> str:
    """The word, which is one of `words`. Raises SourceError for any other, and for what is no word."""
    known = list(words)
    if isinstance(value, str) and value in known:
        return value
    raise unknown_word(f"{option} is {_either(known)}, not {value!r:.80}", value, known, code)


def unknown_word(problem: str, value: object, words: Iterable[str], code: str) -> SourceError:
    """An error whose hint names the word that is meant, or else all."""
    from difflib import get_close_matches

    known = [word for word in words if word]
    close = get_close_matches(value.lower(), known, n=1) if isinstance(value, str) else []
    hint = f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(known) or 'none'}"
    return SourceError(Diagnostic(code, problem, hint=hint))


def nearest(name: str, words: Iterable[str]) -> str:
    """A hint for a name that is none of `words`: the one that is meant, or else all of them."""
    from difflib import get_close_matches

    known = list(words)
    close = get_close_matches(name, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"there are {', '.join(known)}"


def _either(words: list[str]) -> str:
    known = [word for word in words if word]
    return " or ".join(filter(None, [", ".join(known[:-1]), *known[-1:]]))
