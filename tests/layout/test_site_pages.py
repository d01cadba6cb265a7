"""The documentation site's pages: links lead somewhere, and the reference is whole. `make site`
draws them.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import xlac

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_build", ROOT / "docs" / "site" / "build.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_lead_somewhere(site: ModuleType) -> None:
    files, dead = site.found()
    assert not dead
    assert {ROOT / "README.md", ROOT / "docs" / "images" / "report-graph.png"} <= files.keys()


def test_a_dead_link_is_found(
    site: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text(
        "[a](docs/A.md) [gone](docs/B.md#c) `[code](X.md)` [web](https://a.b) ![p](p.png) [f](docs)"
    )
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "A.md").write_text("[up](../README.md)\n```\n[x](Y.md)\n```\n")
    monkeypatch.setattr(site, "ROOT", tmp_path)
    files, dead = site.found()
    assert dead == ["README.md: docs/B.md#c", "README.md: p.png"]
    assert [file.name for file in files] == ["README.md", "A.md"]
    assert "f" in site.on_site(tmp_path / "README.md").split()


def test_every_page_of_the_menu_is_there(site: ModuleType) -> None:
    made = {ROOT / "docs" / "PYTHON.md", ROOT / "docs" / "ERRORS.md"}
    pages = re.findall(r": (\S+\.md)$", site.CONFIGURATION.read_text(), re.MULTILINE)
    assert len(pages) > 30 and {ROOT / page for page in pages} <= {*site.found()[0], *made}


def test_the_reference_has_all_of_python(site: ModuleType) -> None:
    page = site.python_page()
    assert set(re.findall(r"^## `xlac\.(\w+)`$", page, re.MULTILINE)) == set(xlac._HOMES)
    assert "def compile(source: object, target: str | Sequence[object]='cpu', *, dims:" in page
    assert "### `Compiled.run`" in page and "Raises SourceError" in page
    with pytest.raises(KeyError, match=r"xlac.api does not define nothing"):
        site.defined("nothing", "xlac.api")


def test_the_reference_has_all_errors(site: ModuleType) -> None:
    text = (ROOT / "toolchain" / "xlac" / "diagnostics.txt").read_text("utf-8")
    page = site.errors_page()
    assert re.findall(r"^## (XL\d{4}) ", page, re.MULTILINE) == re.findall(
        r"^(XL\d{4}) ", text, re.MULTILINE
    )
