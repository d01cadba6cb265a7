"""The page that shows a report's document: one file of HTML, which loads nothing from elsewhere.

The document and the layout library are compressed, and are data to the browser. What runs is the
page's own code and d3, which a content security policy allows by their hashes; the layout library
runs in a worker made from its text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from html import escape
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "page"
STYLES = ("style.css", "views.css")
SCRIPTS = (
    "start.js",
    "data.js",
    "tree.js",
    "layout.js",
    "drawing.js",
    "graph.js",
    "details.js",
    "tables.js",
    "memory.js",
    "plots.js",
    "kernels.js",
    "views.js",
    "main.js",
)
LIBRARY = "vendor/d3.min.js"
WORKER = "vendor/elk-worker.min.js"
LICENCES = "vendor/LICENSES.txt"


def page(document: dict[str, Any], opens: str = "overview") -> str:
    """The HTML of a document, which opens with one of its panels. Names in the document may be any
    text: they are data, and the page's code makes text of them, never markup.
    """
    style = "\n".join(_read(name) for name in STYLES)
    code = "\n".join(["'use strict';(() => {", *map(_read, SCRIPTS), "})();"])
    library = _read(LIBRARY)
    name = document["model"]["name"].encode("utf-8", "replace").decode()
    title = escape(f"{name} · xlac report")
    return _read("page.html").format(
        policy=policy([library, code], [style]),
        title=title,
        opens=escape(opens),
        style=style,
        licences=escape(_read(LICENCES)),
        library=library,
        code=code,
        document=compressed(json.dumps(document, separators=(",", ":"), allow_nan=False)),
        worker=compressed(_read(WORKER)),
    )


def policy(scripts: list[str], styles: list[str]) -> str:
    """The content security policy: nothing but these scripts and styles, and workers made by the
    page.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {' '.join(map(_hash, styles))}",
            "worker-src blob:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def compressed(text: str) -> str:
    """A text as zlib's bytes in base64, which the browser's own DecompressionStream reads."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")
