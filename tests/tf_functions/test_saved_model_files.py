"""What is said of a SavedModel without TensorFlow, which no test here imports: its signatures, what
they contain that is not supported, and that it is code.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import xlac
from xlac.cli import status
from xlac.frontends.loader import load
from xlac_sdk.source import SourceError


def field(number: int, content: bytes | str | int) -> bytes:
    """A field of a message: text, bytes or a number below 128."""
    if isinstance(content, int):
        return bytes([number << 3, content])
    data = content.encode() if isinstance(content, str) else content
    size = len(data)
    length = [size] if size < 128 else [size & 127 | 128, size >> 7]
    return bytes([number << 3 | 2, *length]) + data


def entry(number: int, key: str, value: bytes) -> bytes:
    """An entry of a map."""
    return field(number, field(1, key) + field(2, value))


def tensor(name: str, dtype: int, *sizes: int) -> bytes:
    """A TensorInfo."""
    shape = b"".join(field(2, field(1, size)) for size in sizes)
    return field(1, name) + field(2, dtype) + field(3, shape)


def node(name: str, operation: str, *inputs: str, calls: str = "") -> bytes:
    """A NodeDef."""
    texts = b"".join(field(3, text) for text in inputs)
    called = entry(5, "f", field(10, field(1, calls))) if calls else b""
    return field(1, name) + field(2, operation) + texts + called


def saved() -> bytes:
    """A SavedModel with a signature of numbers, and one of text that a function works on; the
    function calls itself.
    """
    good = entry(1, "x", tensor("x:0", 1, 2, 4)) + entry(2, "y", tensor("relu:0", 1, 2, 4))
    text = entry(1, "t", tensor("t:0", 7, 2)) + entry(2, "n", tensor("call:0", 3, 2))
    nodes = (
        node("x", "Placeholder"),
        node("relu", "Relu", "x"),
        node("t", "Placeholder"),
        node("table", "HashTableV2"),
        node("unused", "ReadFile"),
        node("call", "StatefulPartitionedCall", "t:0", "^table", calls="inner"),
    )
    inner = (node("length", "StringLength"), node("again", "PartitionedCall", calls="inner"))
    function = field(1, field(1, "inner")) + b"".join(field(3, n) for n in inner)
    graph = b"".join(field(1, n) for n in nodes) + field(2, field(1, function))
    meta = field(1, field(4, "serve")) + field(2, graph)
    meta += entry(5, "serving_default", good) + entry(5, "text", text)
    return field(1, 1) + field(2, meta)


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
