"""The backends that are released with this version, whether they are installed or not."""

from __future__ import annotations


def released() -> list[str]:
    """Their names: the extras of the distribution `xlac` that ask for the distribution of a backend
    and nothing else, as `pip install xlac[cpu]` does. Empty where xlac is no installed
    distribution.
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        asked = requires("xlac") or []
    except PackageNotFoundError:
        return []
    names = [text.replace('"', "'").replace(" ", "").partition(";extra==") for text in asked]
    extras = [(what, extra.strip("'")) for what, _, extra in names if extra]
    return sorted(extra for what, extra in extras if what == f"xlac-{extra}")
