"""The page of a report: what its policy allows, that names stay data, and its size."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import hostile
import pytest
from page_document import document_of

from xlac.debug.report import page


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text of scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.starts: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.starts.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.starts and self.starts[-1][0] in ("script", "style") and data.strip():
            self.texts.append((self.starts[-1][0], data))


@pytest.fixture(scope="module")
def made() -> tuple[dict[str, Any], str]:
    document = hostile.document()
    return document, page.page(document)


def test_the_policy_allows_what_the_page_has_and_no_more(made: tuple[Any, str]) -> None:
    elements = Elements(made[1])
    (policy,) = (a["content"] for t, a in elements.starts if t == "meta" and "http-equiv" in a)
    assert policy is not None
    parts = dict(part.split(" ", 1) for part in policy.split("; "))
    assert parts["default-src"] == "'none'" and parts["worker-src"] == "blob:"
    assert set(parts) == {
        "default-src",
        "script-src",
        "style-src",
        "worker-src",
        "base-uri",
        "form-action",
    }
    for tag, wanted in (("script", parts["script-src"]), ("style", parts["style-src"])):
        code = [text for kind, text in elements.texts if kind == tag]
        code = [text for text in code if not re.fullmatch(r"[A-Za-z0-9+/=]+", text)]
        hashes = [base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in code]
        assert wanted.split() == [f"'sha256-{one}'" for one in hashes]


def test_nothing_is_loaded_and_nothing_is_inline(made: tuple[Any, str]) -> None:
    for tag, attributes in Elements(made[1]).starts:
        assert not {"src", "srcset", "data", "action", "style"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        assert attributes.get("href", "#main") == "#main"
    code = "\n".join((page.PAGE / name).read_text() for name in page.SCRIPTS)
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "new Function",
        "fetch(",
        "XMLHttpRequest",
        "import(",
        "http:",
        "https:",
    ):
        assert forbidden not in code.replace("http://www.w3.org/2000/svg", ""), forbidden


def test_hostile_names_are_data(made: tuple[Any, str]) -> None:
    document, html = made
    tags = [tag for tag, _ in Elements(html).starts]
    assert tags.count("script") == 4 and tags.count("style") == 1
    assert "window.broken" not in re.sub(r"<title>.*?</title>", "", html)
    assert document_of(html) == document
    names = document["graph"]["nodes"]["name"]
    assert names == [hostile.NAMES[0], *hostile.NAMES]


def test_the_code_is_once_and_small(made: tuple[Any, str]) -> None:
    document, html = made
    without = len(html) - len(page.compressed(json.dumps(document)))
    assert without < 1_100_000
    assert {*page.SCRIPTS, *page.STYLES} == {
        f.name for f in page.PAGE.iterdir() if f.suffix in (".js", ".css")
    }


def test_vendored_files_are_those_of_the_lock() -> None:
    vendor = page.PAGE / "vendor"
    lock = json.loads((vendor / "package-lock.json").read_text())["packages"]
    wanted = json.loads((vendor / "package.json").read_text())["dependencies"]
    sums = json.loads((vendor / "files.json").read_text())
    for name, version in wanted.items():
        assert lock[f"node_modules/{name}"]["version"] == version
        assert all(one.get("integrity", "sha512-").startswith("sha512-") for one in lock.values())
        assert f"{name} {version}" in (vendor / "LICENSES.txt").read_text()
    assert set(sums) == {"d3.min.js", "elk-worker.min.js"}
    for name, digest in sums.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest
