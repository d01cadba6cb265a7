"""What `xlac build -o` replaces: only what it wrote itself, at once or not at all, on a disk that
fails too.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_disk import FaultyDisk, Killed

from xlac.artefact import folders
from xlac.artefact.folders import replacing
from xlac.support.whole_files import together
from xlac_sdk.host import manifest, manifest_facts
from xlac_sdk.source import SourceError

OLD, NEW = (
    {"m.so": b"old code", "part/m.h": b"old header", "gone": b"of the old one only"},
    {"m.so": b"new code", "part/m.h": b"new"},
)
THEIRS = {
    "thesis.txt": b"years",
    "part/notes": b"beside ours",
    "own/deep/er": b"a folder of theirs",
}


def fill(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def build(folder: Path, files: dict[str, bytes]) -> None:
    """What `artefact.write` does, without compiling."""
    import json

    with replacing(folder) as made:
        fill(made, files)
        facts = {
            "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
            "format": 2,
        }
        (made / manifest.NAME).write_text(
            json.dumps({**facts, "sha256": manifest_facts.digest(facts)})
        )


def found(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name != manifest.NAME
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build(tmp_path / "out", OLD)
    fill(tmp_path / "out", THEIRS)
    return tmp_path / "out"


def test_what_a_build_wrote_goes_and_what_others_wrote_stays(folder: Path) -> None:
    (folder / "link").symlink_to("thesis.txt")
    (folder / "empty").mkdir()
    folder.chmod(0o750)
    build(folder, NEW)
    assert found(folder) == {**NEW, **THEIRS, "link": THEIRS["thesis.txt"]}
    assert (
        (folder / "link").is_symlink()
        and (folder / "empty").is_dir()
        and folder.stat().st_mode & 0o777 == 0o750
    )
    assert (folder / "thesis.txt").stat().st_nlink == 1 and [
        p.name for p in folder.parent.iterdir()
    ] == ["out"]


def _unsigned(folder: Path) -> None:
    (folder / manifest.NAME).write_text('{"files": {"thesis.txt": "", "own": ""}}')


def _forged(folder: Path) -> None:
    text = (folder / manifest.NAME).read_text()
    (folder / manifest.NAME).write_text(text.replace("gone", "thesis.txt"))


@pytest.mark.parametrize(
    "harm",
    [
        _unsigned,
        _forged,
        lambda folder: (folder / manifest.NAME).unlink(),
        lambda folder: (folder / manifest.NAME).write_text("{}"),
        lambda folder: (folder / manifest.NAME).write_text("[" * 100_000),
        lambda folder: (folder / "m.so").write_bytes(b"edited by hand"),
        lambda folder: (folder / "part" / "m.h").write_bytes(b"edited by hand"),
    ],
)
def test_a_manifest_gives_no_leave_to_remove_what_nobody_built(
    harm: Callable[[Path], object], folder: Path
) -> None:
    harm(folder)
    before, told = (
        found(folder),
        (folder / manifest.NAME).exists() and (folder / manifest.NAME).read_bytes(),
    )
    with pytest.raises(SourceError, match="XL3010"):
        build(folder, NEW)
    assert found(folder) == before and told == (
        (folder / manifest.NAME).exists() and (folder / manifest.NAME).read_bytes()
    )
    assert [p.name for p in folder.parent.iterdir()] == ["out"]


def test_files_that_a_self_consistent_manifest_lists_stay_when_they_are_others(
    folder: Path,
) -> None:
    """Somebody's folder with a manifest that claims everything in it, and hashes to itself."""
    import json

    facts = {"files": {**dict.fromkeys((*THEIRS, "../beside"), "0" * 64)}, "format": 2}
    (folder.parent / "beside").write_bytes(b"outside")
    (folder / manifest.NAME).write_text(
        json.dumps({**facts, "sha256": manifest_facts.digest(facts)})
    )
    with pytest.raises(SourceError, match="XL3010"):
        build(folder, NEW)
    del facts["files"]["../beside"]
    (folder / manifest.NAME).write_text(
        json.dumps({**facts, "sha256": manifest_facts.digest(facts)})
    )
    build(folder, {"new": b"new"})
    assert found(folder) == {**OLD, **THEIRS, "new": b"new"} and (folder.parent / "beside").exists()


@pytest.mark.parametrize("name", ["thesis.txt", "own", "part/notes/below"])
def test_a_new_file_does_not_take_the_place_of_somebodys(name: str, folder: Path) -> None:
    before = found(folder)
    with pytest.raises(SourceError, match="XL3010"):
        build(folder, {**NEW, name: b"ours"})
    assert found(folder) == before


def test_a_link_to_a_folder_stays_one(folder: Path) -> None:
    (folder.parent / "link").symlink_to("out")
    build(folder.parent / "link", NEW)
    assert (folder.parent / "link").is_symlink() and found(folder) == {**NEW, **THEIRS}


@pytest.mark.sampled(32)
@pytest.mark.parametrize("error", ["ENOSPC", "EACCES", "EIO", "killed"])
@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("links", [True, False])
def test_any_call_may_fail(
    error: str, atomic: bool, links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is the old one or the new one, and nobody's file is lost; where names cannot be
    exchanged, a kill may leave it aside.
    """
    if not atomic:
        monkeypatch.setattr(folders, "_swapped", lambda *_: False)
    if not links:

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", refuse)
    disk, number, done = FaultyDisk(tmp_path), 0, False
    while not done:
        folder = tmp_path / str(number) / "out"
        build(folder, OLD)
        fill(folder, THEIRS)
        failed = True
        try:
            with disk.failing(number, getattr(errno, error, None)):
                build(folder, NEW)
            failed = False
        except (OSError, SourceError, Killed):
            pass
        aside = [p for p in folder.parent.iterdir() if p != folder]
        if not folder.exists():
            assert not atomic and error == "killed", "with two renames only"
            (old,) = (p for p in aside if (p / "thesis.txt").exists() and p.name.endswith("-old"))
            folder = old
        assert found(folder) in ({**OLD, **THEIRS}, {**NEW, **THEIRS}), number
        assert manifest.listed(folder) is not None and (
            failed or found(folder) == {**NEW, **THEIRS}
        )
        done = number > disk.calls
        shutil.rmtree(tmp_path / str(number))
        number += 1
    assert number > 40


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_exported_files_are_replaced_together(there: bool, error: str, tmp_path: Path) -> None:
    """A spec and its weights: both are the old ones or both the new, whatever fails."""
    before = {"m.yaml": b"old", "m.safetensors": b"old"} if there else {}
    after = {"m.yaml": b"new", "m.safetensors": b"new"}
    disk, number = FaultyDisk(tmp_path), 0
    while number <= disk.calls or number == 0:
        folder = tmp_path / str(number)
        folder.mkdir()
        fill(folder, before)
        failed = True
        try:
            with (
                disk.failing(number, getattr(errno, error)),
                together(*(folder / name for name in after)) as made,
            ):
                for file in made:
                    file.write_bytes(b"new")
            failed = False
        except OSError:
            pass
        named = {name: data for name, data in found(folder).items() if not name.startswith(".")}
        assert named in (before, after) and (failed or named == after), number
        number += 1
    assert number > 8


def test_formatting_leaves_files_of_similar_names_alone(tmp_path: Path) -> None:
    from xlac.cli import status

    (tmp_path / "real.yaml").write_text(
        "xlac: 1\nmodel: m\ninputs: {x: 'f32[2]'}\ngraph:\n  y:   relu(x)\noutputs: [y]\n"
    )
    (tmp_path / "m.yaml").symlink_to("real.yaml")
    (tmp_path / "m.yaml.tmp").write_text("mine")
    assert status(["fmt", str(tmp_path / "m.yaml")]) in (0, 1)
    assert (tmp_path / "m.yaml.tmp").read_text() == "mine" and (tmp_path / "m.yaml").is_symlink()
    assert "y:   relu" not in (tmp_path / "real.yaml").read_text()
