"""YAML's core types, places, and text that means harm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from work import calls

from xlac.spec.load import load
from xlac.spec.text.composer import compose
from xlac.spec.text.yaml import MAX_BYTES, read
from xlac_sdk.source import SourceError

HERE = Path("spec.yaml")


def plain(text: str) -> Any:
    return compose(HERE, text).root.plain()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3), ("1.5", 1.5), ("-.5e2", -50.0), ("12e03", 12000.0), ("0x1F", 31),
        ("0o17", 15), ("010", 10), ("+7", 7), ("no", "no"), ("on", "on"), ("Yes", "Yes"),
        ("12:30", "12:30"), ("1_000", "1_000"), ("2001-01-01", "2001-01-01"), ("true", True),
        ("False", False), ("TRUE", True), ("tRue", "tRue"), ("null", None), ("~", None), ("", None),
        (".inf", float("inf")), ("-.Inf", float("-inf")), ("1.2.3", "1.2.3"), ("0b11", "0b11"),
        ("'1'", "1"), ('"true"', "true"), (".", "."), ("e5", "e5"), ("=", "="),
    ],
)  # fmt: skip
def test_core_types(text: str, value: Any) -> None:
    found = plain(f"k: {text}\n")["k"]
    assert found == value and type(found) is type(value)


def test_keys_are_text() -> None:
    assert plain("on: 1\n1: 2\nnull: 3\ntrue: 4\n") == {"on": 1, "1": 2, "null": 3, "true": 4}


def test_commas_inside_parentheses_do_not_cut_flow_text() -> None:
    text = "{a: mean(argmax(x, axis=-1) == y), b: [softmax(x, axis=1), z], c: f(g(1, 2), 3)}"
    assert plain(text) == {
        "a": "mean(argmax(x, axis=-1) == y)",
        "b": ["softmax(x, axis=1)", "z"],
        "c": "f(g(1, 2), 3)",
    }


def test_line_endings_do_not_matter() -> None:
    assert plain("a: 1\r\nb: 2\r") == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "offset", "width", "place"),
    [
        ("k: relu(x)", 5, 1, "1:9"),
        ("k: 'relu(x)'", 5, 1, "1:10"),
        ('k: "re\\u006cu(x)"', 5, 1, "1:15"),
        ("k: |\n  relu(x)\n  + y\n", 10, 1, "3:5"),
        ("k: >\n  relu(x)\n  + y\n", 10, 1, "3:5"),
        ("k: relu(x)\n  + y\n", 10, 1, "2:5"),
        ('k: "a | b"', 4, 1, "1:9"),
        ("k: été + x", 6, 1, "1:10"),
    ],
)
def test_places_inside_scalars(text: str, offset: int, width: int, place: str) -> None:
    span = compose(HERE, text).span(("k",), offset, width)
    assert f"{span.line}:{span.column}" == place


def test_every_value_has_a_place() -> None:
    source = compose(HERE, "a: {b: [1, {c: 2}]}\nd: 3\n")
    assert str(source.span(("a", "b", 1, "c"))) == "spec.yaml:1:16"
    assert str(source.key_span(("a", "b", 1, "c"))) == "spec.yaml:1:13"
    assert str(source.span(("d",))) == "spec.yaml:2:4"
    assert str(source.span(("a", "missing"))) == "spec.yaml:1:1"


def code(file: Path) -> str:
    with pytest.raises(SourceError) as caught:
        load(file)
    return caught.value.diagnostics[0].code


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_ten_thousand_deep(opening: str, tmp_path: Path) -> None:
    file = tmp_path / "deep.yaml"
    file.write_text(
        "xlac: 1\nparams:\n  k: " + opening * 10_000 + "\n"
        if opening in "[{a: "
        else opening * 10_000 + "x\n"
    )
    assert code(file) in ("XL4014", "XL1004", "XL1009")


def test_block_mappings_deep(tmp_path: Path) -> None:
    file = tmp_path / "deep.yaml"
    file.write_text("".join(" " * i + "a:\n" for i in range(2000)))
    assert code(file) == "XL4014"


def test_hundred_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "large.yaml"
    with file.open("wb") as out:
        out.truncate(100 * 2**20)
    monkeypatch.setattr(Path, "read_bytes", lambda *_: pytest.fail("a file over the limit is read"))
    assert code(file) == "XL4011"
    assert MAX_BYTES < 100 * 2**20


def test_one_long_line(tmp_path: Path) -> None:
    file = tmp_path / "line.yaml"
    file.write_text("xlac: 1\ndoc: " + "x" * 2**21)
    assert code(file) == "XL4012"


def test_many_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xlac.spec.text.composer.MAX_VALUES", 10_000)
    file = tmp_path / "many.yaml"
    file.write_text("a: [" + "1,\n" * 11_000 + "1]\n")
    assert code(file) == "XL4013"


@pytest.mark.parametrize("width", [2, 10, 100])
def test_alias_bombs(width: int, tmp_path: Path) -> None:
    lines = ["a0: &a0 [" + ", ".join(["x"] * width) + "]"]
    lines += [f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * width) + "]" for i in range(1, 40)]
    file = tmp_path / "bomb.yaml"
    file.write_text("\n".join(lines))
    assert code(file) == "XL4013"


def test_aliases_are_allowed() -> None:
    assert plain("a: &v {k: [1, 2]}\nb: *v\n") == {"a": {"k": [1, 2]}, "b": {"k": [1, 2]}}


def test_not_a_file(tmp_path: Path) -> None:
    assert code(tmp_path / "nowhere.yaml") == "XL3001"
    assert code(tmp_path) == "XL3001"
    file = tmp_path / "secret.yaml"
    file.symlink_to(file)
    assert code(file) == "XL3001"


def test_twice_the_nodes_are_twice_the_work(tmp_path: Path) -> None:
    file, spent = tmp_path / "big.yaml", []
    for count in (1000, 2000):
        file.write_text(
            "graph:\n"
            + "".join(f"  n{i}: {{op: linear, in: n{i - 1}, units: 64}}\n" for i in range(count))
        )
        assert len(read(file).root.plain()["graph"]) == count
        spent.append(calls(lambda: read(file)))
    assert spent[1] < 2.2 * spent[0]
