"""The chapter on the language: every sample in it is a whole spec that compiles, or fails as it
says.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from xlac.api import compile
from xlac.cli.arrays import make
from xlac.diagnostics import catalogue
from xlac.driver import specialized
from xlac.frontends.loader import load
from xlac.spec.schema import interface, schema, weights
from xlac_sdk.source import SourceError, UnsupportedError

ROOT = Path(__file__).parents[2]
CHAPTER = (ROOT / "docs" / "SPEC.md").read_text("utf-8")
SAMPLES = {
    re.search(r"^model: (\S+)", text, re.MULTILINE)[1]: text  # type: ignore[index]
    for text in re.findall(r"^```yaml\n(.*?)^```", CHAPTER, re.MULTILINE | re.DOTALL)
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples as files beside each other."""
    made = tmp_path_factory.mktemp("samples")
    for name, text in SAMPLES.items():
        (made / f"{name}.yaml").write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "specs" / "digits.safetensors", made)
    return made


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_does_what_the_chapter_says(name: str, folder: Path) -> None:
    file = folder / f"{name}.yaml"
    head = SAMPLES[name].splitlines()[0]
    if head.startswith("# wrong: "):
        with pytest.raises(SourceError) as wrong:
            load(file)
        assert [d.code for d in wrong.value.diagnostics] == head.removeprefix("# wrong: ").split()
        told = str(wrong.value).splitlines()[0]
        assert told.partition(f"{name}.yaml")[2] in CHAPTER
        return
    if "\ntrain:" in SAMPLES[name]:
        with pytest.raises(UnsupportedError, match="XL5030"):
            load(file)
        return
    model = specialized(load(file))
    generator = np.random.default_rng(0)
    inputs = {
        node.op.name: make("random", node.type.dtype, node.type.shape, generator)
        for node in model.inputs
    }
    results = [compile(model, target)(**inputs) for target in ("cpu", "reference")]
    first, second = (r if isinstance(r, dict) else {"": r} for r in results)
    assert first.keys() == second.keys() and first
    for key, array in first.items():
        np.testing.assert_allclose(
            array, second[key], rtol=1e-4, atol=1e-5, err_msg=f"{name}.{key}"
        )


def test_the_chapter_names_every_section_key_and_number() -> None:
    for model in (
        schema.Document,
        schema.BlockNode,
        schema.ScanNode,
        schema.WhileNode,
        schema.CondNode,
        weights.WeightsSpec,
        interface.DimSpec,
        schema.OpSpec,
        interface.StateSpec,
        weights.TensorInit,
        schema.Carry,
        schema.OpNode,
        schema.Function,
    ):
        for name, field in model.model_fields.items():
            key = field.alias or name
            assert re.search(
                rf"`[^`\n]*\b{key}\b[^`\n]*`|^ *{key}:|[{{ ]{key}: ", CHAPTER, re.MULTILINE
            ), f"{model.__name__}.{key}"
    for code, entry in catalogue().items():
        if code[2] in "1234":
            assert f"| {code} | {entry.title} |" in CHAPTER, (
                "run: docs lists the numbers as the catalogue has them"
            )


def test_the_chapter_states_the_limits() -> None:
    from xlac.spec.elaborate import context
    from xlac.spec.elaborate.blocks import blocks
    from xlac.spec.schema import document, fields
    from xlac.spec.text import composer, expression, grammar, yaml

    for number in (
        yaml.MAX_BYTES >> 20,
        composer.MAX_DEPTH,
        composer.MAX_VALUES,
        composer.MAX_DIGITS,
        fields.MAX_NAME,
        expression.MAX_LENGTH,
        grammar.MAX_DEPTH,
        document.MAX_FILES,
        blocks.MAX_DEPTH,
        blocks.MAX_REPEAT,
        context.MAX_NODES,
    ):
        assert f"{number:,}" in CHAPTER.partition("## Limits")[2].partition("##")[0], number
