"""What is said of a SavedModel without TensorFlow, which no test here imports: its signatures, what
they contain that is not supported, and that it is code.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from saved_model_writer import saved

import xlac
from xlac.cli import status
from xlac.frontends.loader import load
from xlac_sdk.source import SourceError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(saved())
    return tmp_path / "saved"


def test_it_is_not_loaded_unless_trusted(folder: Path) -> None:
    with pytest.raises(SourceError) as refused:
        load(folder)
    assert "runs code when it is loaded" in str(refused.value)
    assert "serving_default(x: f32[2, 4]) -> y: f32[2, 4]" in str(refused.value)
    with pytest.raises(SourceError, match="runs code"):
        xlac.compile(folder)


def test_every_operation_that_is_known_not_to_be_supported_is_named(folder: Path) -> None:
    with pytest.raises(SourceError) as refused:
        load(folder, signature="text", trusted=True)
    inputs, table, length = (d.message for d in refused.value.diagnostics)
    assert inputs == "text: 't' is text, which has no numbers"
    assert table.startswith("text: operation 'table' (HashTableV2) is not supported: it works on")
    assert length.startswith("text: in inner: operation 'length' (StringLength) is not supported")


def test_an_unknown_signature_is_refused_with_the_nearest(folder: Path) -> None:
    with pytest.raises(SourceError, match="no signature 'texts'") as refused:
        load(folder, signature="texts")
    assert "text" in refused.value.diagnostics[0].hint


@pytest.mark.parametrize("verb", ["check", "run", "import", "build"])
def test_commands_say_that_it_is_code(
    verb: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status([verb, str(folder)]) != 0
    assert "--trusted" in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is not None, reason="it is installed")
def test_without_tensorflow_one_line_says_what_to_install(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["check", str(folder), "--trusted"]) != 0
    said = capsys.readouterr().err
    assert "needs the package tensorflow" in said and "pip install tensorflow-cpu" in said


def test_damaged_files_are_refused_or_read(folder: Path) -> None:
    whole = saved()
    file = folder / "saved_model.pb"
    for end in range(len(whole)):
        file.write_bytes(whole[:end])
        with pytest.raises(SourceError):
            load(folder, signature="text")
    for at in range(0, len(whole), 3):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        with pytest.raises(SourceError):
            load(folder, signature="text")


@pytest.mark.parametrize("option", [["--signature", "a"], ["--trusted"]])
@pytest.mark.parametrize("verb", ["expand", "train", "simplify"])
def test_commands_that_take_none_refuse_its_options(
    verb: str, option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status([verb, str(tmp_path / "model.yaml"), *option]) == 2
    assert f"{option[0]} is for models of TensorFlow" in capsys.readouterr().err


def test_files_without_signatures_refuse_one(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("xlac: 1\n")
    with pytest.raises(SourceError, match="has no signatures to choose from"):
        load(tmp_path / "m.yaml", signature="a")
