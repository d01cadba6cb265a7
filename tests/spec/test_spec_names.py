"""Names of a user's own: any letters of any script, none of which means anything else to the
compiler.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import unicodedata
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from xlac.api import compile
from xlac.ir.interpret import interpret
from xlac.spec.load import load
from xlac.spec.text import expression
from xlac.spec.text.expression import parse
from xlac.spec.text.grammar import Malformed, dotted
from xlac_sdk.emit.cdialect import KEYWORDS
from xlac_sdk.host.capi.names import parameters

LETTERS = [
    chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000 and chr(c).isidentifier()
]
INNER = [
    chr(c)
    for c in range(sys.maxunicode + 1)
    if not 0xD800 <= c < 0xE000 and ("a" + chr(c)).isidentifier()
]


@pytest.fixture
def step(request: pytest.FixtureRequest) -> int:
    """Of the stretches of letters, how many are passed over for one that is tried; every script has
    several.
    """
    return 40 if request.config.getoption("--all") else 40 * 16


def test_every_letter_is_itself(step: int) -> None:
    """Every character that may begin a name, and every one that may go on with one: none is another
    name than it spells.
    """
    for letters, before in ((LETTERS, ""), (INNER, "a")):
        for first in range(0, len(letters), step):
            some = letters[first : first + 40]
            found = parse(f"[{', '.join(f'{before}{c}b' for c in some)}]").names
            assert set(found) == {unicodedata.normalize("NFKC", f"{before}{c}b") for c in some}
            assert not any(name.startswith("$") or "." in name for name in found)


def test_every_letter_is_itself_beside_a_parameter(step: int) -> None:
    """The same where the text holds what is no Python, by which places are kept."""
    for first in range(0, len(LETTERS), step):
        some = LETTERS[first : first + 40]
        found = parse(f"[$p, ${{q}}, layer.0.h, {', '.join(f'{c}b' for c in some)}]").names
        assert set(found) == {unicodedata.normalize("NFKC", f"{c}b") for c in some} | {"layer.0.h"}


@pytest.mark.parametrize(
    "text", ["ፐa", "ፑa", "_a", "__", "layer.ሀ", "layer.A", "layer.BC.x", "a.if_", "if_", "é", "数"]
)
def test_what_stands_for_something_inside_is_an_ordinary_name(text: str) -> None:
    tree = parse(text).tree
    assert dotted(tree) == text and parse(text).names == (text,)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("$a", "$a"),
        ("layer.0.h", "layer.0.h"),
        ("a.85.99.b", "a.85.99.b"),
        ("$layer_0", "$layer_0"),
        ("$_", "$_"),
    ],
)
def test_what_is_no_python_is_read(text: str, name: str) -> None:
    assert dotted(parse(text).tree) == name


def test_text_in_quotation_marks_is_left_alone() -> None:
    tree = parse("f(x, mode='a$b {c.0} \"', other=\"$d's\")").tree
    assert [k.value.value for k in tree.keywords] == ['a$b {c.0} "', "$d's"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("code", [c for c in range(32) if c not in (9, 10)] + [127])
def test_characters_that_end_a_line_to_python_are_refused(code: int) -> None:
    with pytest.raises(Malformed, match=f"U\\+{code:04X}"):
        parse(f"a {chr(code)}+ $b")


def test_no_letter_stands_for_another_in_the_source() -> None:
    """What is put in the place of a `$` or of a digit is ASCII, so that it cannot be told from what
    a user writes; places tell it.
    """
    assert Path(expression.__file__).read_text().replace("…", "").isascii()


def test_a_name_like_a_parameter_is_no_parameter(tmp_path: Path) -> None:
    """An input whose name was once read as the parameter `$scale`."""
    file = tmp_path / "m.yaml"
    file.write_text(
        "xlac: 1\nmodel: m\nparams: {scale: 30}\ninputs: {ፐscale: 'f32[2]'}\ngraph:\n  y: ፐscale * "
        "2\n  z: ፐscale * $scale\noutputs: [y, z]\n"
    )
    model = load(file)
    found = interpret(model.graph, {"ፐscale": np.array([1.0, 2.0], np.float32)}, {})
    assert found["y"].tolist() == [2, 4] and found["z"].tolist() == [30, 60]


NAMES = """int class a_b a A ፐa _a n x X main NULL restrict t0 s0 buffer arena run inputs outputs
weights state constants size sizes é e\u0301x fi 𝐱y _ __ a__b bool float32 typeof uint8_t
size_t inline static register asm y_ i j k p0 in out args INFINITY complex exp max relu
array_int int_ a_2 a-b a.b x.0 h.weight 0 1x a/b .. %t0 ሀ @x array float32_t co_await self
type loop""".split()


def test_names_that_look_alike_in_other_languages_stay_apart(tmp_path: Path) -> None:
    """Each input has its own number in the sum, whatever the language that is made of it thinks of
    its name.
    """
    lines = [f"  {json.dumps(name, ensure_ascii=False)}: 'f32[1]'" for name in NAMES]
    terms = [
        (
            f"  term{n}: {{op: mul, in: [{json.dumps(name, ensure_ascii=False)}, "
            f"{2.0**n if n < 20 else n}]}}"
        )
        for n, name in enumerate(NAMES)
    ]
    sums = ["  sum0: term0", *(f"  sum{n}: sum{n - 1} + term{n}" for n in range(1, len(NAMES)))]
    file = tmp_path / "m.yaml"
    file.write_text(
        "\n".join(
            [
                "xlac: 1",
                "model: m",
                "inputs:",
                *lines,
                "graph:",
                *terms,
                *sums,
                f"outputs: [sum{len(NAMES) - 1}]",
            ]
        )
    )
    values = np.random.default_rng(0).integers(0, 9, len(NAMES)).astype(np.float32)
    given = {unicodedata.normalize("NFKC", name): values[n : n + 1] for n, name in enumerate(NAMES)}
    wanted = sum((2.0**n if n < 20 else n) * v for n, v in enumerate(values.tolist()))
    for target in ("c", "cpu"):
        assert compile(file, target)(**given) == wanted


def test_names_of_parameters_compile_as_c_and_cpp(tmp_path: Path) -> None:
    """Words that a language of embedders keeps for itself, and the names that they are given
    instead.
    """
    words = sorted(
        {w.lower() for w in KEYWORDS} | {f"array_{w.lower()}" for w in KEYWORDS} | set(NAMES)
    )
    names = parameters(words, "array")
    assert len(set(names)) == len(words)
    text = (
        "#include <stdint.h>\n#include <stddef.h>\n#include <math.h>\n#include <complex.h>\n"
        if (c := shutil.which("cc"))
        else ""
    )
    file = tmp_path / "m.h"
    file.write_text(
        text + f"int f({', '.join(f'const uint8_t *{n}' for n in names)}, size_t last_one);\n"
    )
    for compiler, language in ((c, "c"), (shutil.which("g++"), "c++")):
        if compiler:
            body = (
                file.read_text()
                if language == "c"
                else file.read_text().replace("#include <complex.h>\n", "")
            )
            subprocess.run(
                [compiler, "-x", language, "-fsyntax-only", "-"], input=body, text=True, check=True
            )


def test_reserved_words_are_all_known() -> None:
    """C++'s own list of what may not name a parameter: each word is tried, alone."""
    if not (compiler := shutil.which("g++")):
        pytest.skip("needs g++")
    tried = (
        "and alignas bool char8_t concept const_cast co_return decltype dynamic_cast export "
        "requires static_cast typeid typeof wchar_t xor_eq"
    ).split()
    found = defaultdict(list)
    for word in tried:
        (name,) = parameters([word], "array")
        found[name].append(word)
    text = "".join(f"void f{n}(int {name});\n" for n, name in enumerate(found))
    subprocess.run([compiler, "-x", "c++", "-fsyntax-only", "-"], input=text, text=True, check=True)
