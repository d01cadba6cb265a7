"""`xlac cache`: the cache of earlier compilations on disk."""

from __future__ import annotations

from typing import Any

import click

from xlac.cli.choice import chosen
from xlac.cli.options import entry_option, spec_options, target_options
from xlac_sdk.support.counts import number_of


@click.group(name="cache")
def command() -> None:
    """List, explain and clear the compiled programs kept on disk (XLAC_CACHE, XLAC_CACHE_BYTES)."""


def _open() -> Any:
    from xlac.cache.store import Cache
    from xlac.settings import settings
    from xlac_sdk.source import Diagnostic, SourceError

    now = settings()
    if now.cache is None:
        raise SourceError(Diagnostic("XL5041", "the cache is off (XLAC_CACHE=off)"))
    return Cache(now.cache, now.cache_bytes)


@command.command("ls")
def list_() -> None:
    """List the entries, the least recently used first."""
    import time

    from xlac.cli.amounts import size

    cache = _open()
    total = count = 0
    for entry in cache.entries():
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
        click.echo(
            f"{entry.key[:12]}  {used}  {size(entry.nbytes):>10}  {entry.backend:<10} "
            f"{entry.program}"
        )
        total, count = total + entry.nbytes, count + 1
    entries = number_of(count, "entry", "entries")
    click.echo(f"{entries}, {size(total)} of {size(cache.limit)}, in {cache.folder}")


@command.command()
def gc() -> None:
    """Remove the least recently used entries until the cache fits its bound."""
    cache = _open()
    _remove(cache, cache.limit)


@command.command()
def clear() -> None:
    """Remove every entry. The measured facts of the machine stay."""
    from xlac_sdk.source import Diagnostic, SourceError

    cache = _open()
    before = [entry.folder for entry in cache.entries()]
    _remove(cache, 0)
    if left := sum(folder.exists() for folder in before):
        entries = number_of(left, "entry", "entries")
        raise SourceError(
            Diagnostic("XL3001", f"{entries} could not be removed: is {cache.folder} read-only?")
        )


def _remove(cache: Any, limit: int) -> None:
    """Removes entries until the others fit in `limit` bytes, and prints what it removed."""
    from xlac.cli.amounts import size

    removed = cache.collect(limit)
    freed = size(sum(entry.nbytes for entry in removed))
    click.echo(f"{number_of(len(removed), 'entry', 'entries')} removed, {freed}")


@command.command()
@spec_options
@target_options
@entry_option
def why(**options: Any) -> None:
    """Say whether SPEC would be taken from the cache, and if not, what is there of the same
    name.
    """
    from xlac.cache.fingerprint import key_of
    from xlac.cli.models import open_model
    from xlac.driver import lower
    from xlac_sdk.host.registry import find

    choice = chosen(**options, usual="step")
    model = open_model(choice)
    backend = find(choice.target)
    lowered = lower(model, backend.target_for(choice.options.request))
    key = key_of(backend, lowered.target, backend.emit(lowered.program, lowered.target))
    cache = _open()
    if cache.find(key) is not None:
        click.echo(f"{key[:12]}: in the cache")
        return
    click.echo(f"{key[:12]}: not in the cache; it would be compiled")
    for entry in cache.entries():
        if entry.program == model.name and entry.backend == backend.name:
            click.echo(
                f"  {entry.key[:12]} is of a {model.name} too, with other sizes, facts or versions"
            )
