"""Manifests that hash to themselves and say anything: every field of real ones, changed in every
way, loads or is an error with a number.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from packages import build

import xlac
from xlac_sdk.host import manifest, manifest_facts
from xlac_sdk.source import XlacError

HUGE = 10**4000
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3, 2**31, 2**50, 2**64, HUGE, 1.0, 1e400, float("nan"), "", ".",
    "..", "x", "../x", "a/../../x", "/etc/passwd", "C:\\x", "x\0y", "\ud800", "x" * 100_000,
    "manifest.json", "libdigits.so", [], [[]], [0], [-1], [None], [[1, ["batch"]]],
    [[1, ["n"] * 10]], [[2**70, []]], [[1, [{"of": 1, "by": 0}]]], {}, {"x": 1},
    {"of": {}, "by": 1}, {"": None}, {"../x": "0" * 64}, {"x": "0" * 64}, "0" * 64, "cpu", "c",
    "cuda:99",
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("made")
    return {
        "file": build("digits", folder / "file", "--weights", "file", "--dim", "batch=4"),
        "open": build("digits", folder / "open", "--dim", "batch=1..8", "--variant", "batch=1"),
        "entries": build("digits_train", folder / "entries", "--dim", "batch=4"),
        "reference": build("mlp_small", folder / "reference", "--target", "reference"),
    }


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything in a JSON value."""
    if path:
        yield path
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, part in inside:
        yield from places(part, (*path, key))


def holder(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        value = value[key]
    return value


def _drop(at: Any, key: Any) -> None:
    del at[key]


def _rename(at: Any, key: Any) -> None:
    if isinstance(at, dict):
        at[f"{key}x"] = at.pop(key)
    else:
        at.insert(key, copy.deepcopy(at[key]))


def changes(value: Any) -> Iterator[Callable[[Any, Any], None]]:
    yield from (_drop, _rename)
    for other in VALUES:
        yield lambda at, key, other=other: at.__setitem__(key, copy.deepcopy(other))
    if type(value) is int:
        for other in (-value, value + 1, value - 1, value * 2, float(value), str(value)):
            yield lambda at, key, other=other: at.__setitem__(key, other)
    if isinstance(value, list):
        yield lambda at, key: at.__setitem__(key, at[key] * 2)
        yield lambda at, key: at.__setitem__(key, at[key][::-1])


def signed(facts: dict[str, Any]) -> str:
    facts = {**facts}
    try:
        facts["sha256"] = manifest_facts.digest(facts)
        return json.dumps(facts)
    except ValueError:  # a number with more digits than Python writes
        text = json.dumps(facts, default=str)
        return text


@pytest.mark.parametrize("which", ["file", "open", "reference", "entries"])
@pytest.mark.sampled(4)
def test_every_field_changed_in_every_way(
    which: str, made: dict[str, Path], request: pytest.FixtureRequest
) -> None:
    file = made[which] / manifest.NAME
    whole = file.read_text()
    facts = json.loads(whole)
    del facts["sha256"]
    tried = refused = 0
    try:
        for path in places(facts):
            if path[:3] == ("provenance", "machines", 0) and path[3:] not in (
                (),
                ("triple",),
                ("vector_bytes",),
                ("half",),
            ):
                continue  # nobody reads the others
            for number, change in enumerate(changes(holder(facts, path)[path[-1]])):
                if (tried := tried + 1) % 24 and not request.config.getoption("--all"):
                    continue
                other = copy.deepcopy(facts)
                change(holder(other, path), path[-1])
                file.write_text(signed(other))
                try:
                    (
                        xlac.load
                        if path[0] in ("provenance", "library", "weights_file", "target", "weights")
                        else manifest.read
                    )(made[which])
                except XlacError as error:
                    refused += 1
                    assert len(str(error)) < 2000, (path, number)
                except BaseException as error:
                    raise AssertionError(
                        f"{path}, change {number}: {type(error).__name__}: {error}"
                    ) from error
    finally:
        file.write_text(whole)
    assert refused > 40
    xlac.load(made[which])


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "loop"])
def test_files_that_are_none(kind: str, made: dict[str, Path]) -> None:
    import os

    file = made["file"] / "digits.h"
    aside = file.rename(made["file"].parent / "aside")
    try:
        match kind:
            case "fifo":
                os.mkfifo(file)
            case "folder":
                file.mkdir()
            case "device":
                file.symlink_to("/dev/zero")
            case "loop":
                file.symlink_to(file.name)
        with pytest.raises(XlacError, match=r"XL30(01|13)"):
            xlac.load(made["file"])
    finally:
        file.rmdir() if kind == "folder" else file.unlink()
        aside.rename(file)
