"""Every operation can be written by every exporter, or is refused with a reason; and the tables of
the importers' files name every file that has operators (PyTorch's are found, in folders too).
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from xlac.cli import status
from xlac.debug import op_coverage
from xlac.debug.op_coverage import coverage, lacking
from xlac.ir.op import OPS

FRONTENDS = Path(__file__).parents[2] / "toolchain" / "xlac" / "frontends"
# what enters operators in the table of an importer, and the name of its list of files
REGISTER = {
    "onnx/ops": ("operator", "FAMILIES"),
    "stablehlo/ops": ("operation", "__all__"),
    "tflite/ops": ("operator", "__all__"),
}


@pytest.fixture(scope="module")
def found() -> op_coverage.Coverage:
    return coverage()


def test_exporters_write_every_operation_or_refuse_it(found: op_coverage.Coverage) -> None:
    from xlac.exporters.stablehlo.writer import REFUSED as STABLEHLO

    missing = lacking(found)
    assert missing["stablehlo out"] == list(STABLEHLO) == []
    assert not missing["spec out"] and not missing["spec"] and not missing["python"]
    assert sorted(missing["onnx out"]) == ["custom_call", "rng_bits"]


def test_the_exporter_to_onnx_has_the_rules_that_it_declares() -> None:
    """Fewer fail here, and a rule that is not declared where its module is imported."""
    pytest.importorskip("onnx")
    from xlac.exporters.onnx import model, writer, written

    assert model.FAMILIES
    assert writer.RULES.keys() == written.WRITTEN
    with pytest.raises(AssertionError, match=r"written\.py lacks squareplus"):
        writer.rule("squareplus")


def test_an_operation_that_an_exporter_lacks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from xlac.exporters.stablehlo import module, writer

    assert module.FAMILIES
    for lost, others in {"erf": {"gelu_exact"}, "sort": {"topk", "argsort"}}.items():
        with monkeypatch.context() as patch:
            patch.delitem(writer.RULES, lost)
            column = op_coverage.WAYS["stablehlo out"]()
            gone = {name for name in OPS if name not in column}
            assert {lost, *others} <= gone, "what is made of it cannot be written either"
            assert "softmax" not in gone


def test_what_importers_make(found: op_coverage.Coverage) -> None:
    """What they declare, which the tests of each importer hold it to; composites by parts."""
    assert found["dot"]["torch in"] == found["gather"]["onnx in"] == "built"
    assert found["softmax"]["stablehlo in"] == "parts"
    assert not found["custom_call"]["torch in"]


def test_every_importer_has_a_column() -> None:
    importers = {file.parent.name for file in FRONTENDS.glob("*/produced.py")}
    assert len(importers) > 3
    assert importers == {way.removesuffix(" in") for way in op_coverage.WAYS if way[-3:] == " in"}


@pytest.mark.parametrize("folder", REGISTER)
def test_every_file_with_operators_is_in_the_table(folder: str) -> None:
    register, table = REGISTER[folder]
    root = FRONTENDS / folder
    tree = ast.parse((root / "__init__.py").read_text("utf-8"))
    (value,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == table
    )
    words = {
        word
        for node in ast.walk(value)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for word in node.value.split()
    }
    files = [file for file in root.rglob("*.py") if file.name != "__init__.py"]
    having = [file for file in files if f"@{register}(" in file.read_text("utf-8")]

    def named(file: Path) -> bool:
        """Whether the table has the file, or its folder whose own `__init__` imports the file."""
        home = (file.parent / "__init__.py").read_text("utf-8")
        return file.stem in words or (file.parent.name in words and file.stem in home)

    assert having and all(map(named, having)), [file for file in having if not named(file)]
    assert words <= {file.stem for file in files} | {p.name for p in root.iterdir()}


def test_the_command_tells_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["ops", "--coverage", "gelu"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert len(told) == len(op_coverage.WAYS)
    assert told[-2].split() == ["stablehlo", "out", "expansion"]
