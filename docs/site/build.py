"""Makes the documentation site: `make site`, or `python docs/site/build.py FOLDER`.

Pages keep their places in the repository, so links between them work on the site as they do in the
files. Beside those, what the code says is made into pages: the Python interface and the errors.
Material for MkDocs draws them. A link to what is not there is an error.
"""

from __future__ import annotations

import ast
import copy
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = Path(__file__).with_name("mkdocs.yml")

BEGINNINGS = ("README.md", "SECURITY.md", "CHANGELOG.md", "docs/*.md", "docs/design/*.md")
"""Pages of the site; what they link to is on it too."""

LINK = re.compile(r"(?<!!)\[([^\]\[]*)\]\(([^()\s]+)\)|!\[([^\]]*)\]\(([^()\s]+)\)")
CODE = re.compile(r"^```.*?^```[^\n]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def outside_code(text: str) -> str:
    """A page's text without code, in which brackets are no links."""
    return CODE.sub("", text)


def links(file: Path) -> Iterator[str]:
    """The links of a page to other files."""
    for match in LINK.finditer(outside_code(file.read_text(encoding="utf-8"))):
        target = match[2] or match[4]
        if not re.match(r"[a-z]+:|#", target):
            yield target


def found() -> tuple[dict[Path, None], list[str]]:
    """All files of the site, and the links to what is not there."""
    files: dict[Path, None] = {}
    dead: list[str] = []
    pending = [file for pattern in BEGINNINGS for file in sorted(ROOT.glob(pattern))]
    while pending:
        file = pending.pop(0)
        if file in files:
            continue
        files[file] = None
        for link in links(file) if file.suffix == ".md" else ():
            target = (file.parent / link.partition("#")[0]).resolve()
            if target.is_dir() and (target / "README.md").is_file():
                target = target / "README.md"
            if target.is_file() and target.is_relative_to(ROOT):
                pending.append(target)
            elif not target.is_dir():
                dead.append(f"{file.relative_to(ROOT)}: {link}")
    return files, dead


def on_site(file: Path) -> str:
    """A page's text; links to folders lead to their README, or are text where there is none."""

    def linked(match: re.Match[str]) -> str:
        text, link = match[1], match[2]
        if link is None or re.match(r"[a-z]+:|#", link):
            return match[0]
        target = (file.parent / link).resolve()
        if not target.is_dir():
            return match[0]
        readme = (target / "README.md").is_file()
        return f"[{text}]({link.rstrip('/')}/README.md)" if readme else text

    return LINK.sub(linked, file.read_text(encoding="utf-8"))


def python_page() -> str:
    """The reference of `xlac`: signatures and docstrings of what the package gives, read from the
    source, as some of it needs packages that are not installed.
    """
    import xlac

    parts = ["# Python reference", "What `import xlac` gives, beside the operations."]
    for name, module in sorted(xlac._HOMES.items()):
        node = defined(name, module)
        parts += [f"## `xlac.{name}`", signature(node), ast.get_docstring(node) or ""]
        for own in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(own, ast.FunctionDef) and not own.name.startswith("_"):
                parts += [f"### `{name}.{own.name}`", signature(own), ast.get_docstring(own) or ""]
    return "\n\n".join(parts) + "\n"


def defined(name: str, module: str) -> ast.ClassDef | ast.FunctionDef:
    """The definition of a name, in its module or in the one that this imports it from. Raises
    KeyError if there is none.
    """
    home = module.replace(".", "/")
    for folder in ("toolchain", "backend_sdk"):
        for file in (ROOT / folder / f"{home}.py", ROOT / folder / home / "__init__.py"):
            for node in ast.parse(file.read_text("utf-8")).body if file.is_file() else ():
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
                    return node
                if isinstance(node, ast.ImportFrom) and any(a.name == name for a in node.names):
                    return defined(name, node.module or "")
    raise KeyError(f"{module} does not define {name}")


def signature(node: ast.ClassDef | ast.FunctionDef) -> str:
    """The first lines of a definition, without its body."""
    bare = copy.copy(node)
    bare.body, bare.decorator_list = [ast.Expr(ast.Constant(...))], []
    text = ast.unparse(bare).removesuffix("...").rstrip().removesuffix(":")
    return f"```python\n{text}\n```"


def errors_page() -> str:
    """Every error's number, title and explanation."""
    text = (ROOT / "toolchain/xlac/diagnostics.txt").read_text(encoding="utf-8")
    parts = ["# Errors", "What `xlac explain XL1234` prints, of all of them."]
    for entry in re.split(r"\n\n+(?=XL\d{4} )", text[text.index("XL") :]):
        title, _, explanation = entry.strip().partition("\n")
        parts += [f"## {title}", explanation.replace("<", "&lt;")]
    return "\n\n".join(parts) + "\n"


def sources(folder: Path) -> None:
    """Writes the pages and what they link to. Raises SystemExit with the links to nothing."""
    files, dead = found()
    if dead:
        raise SystemExit("links to what is not there:\n  " + "\n  ".join(dead))
    if folder.exists():
        shutil.rmtree(folder)
    for file in files:
        place = folder / file.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            place.write_text(on_site(file), encoding="utf-8")
        else:
            shutil.copyfile(file, place)
    (folder / "docs" / "PYTHON.md").write_text(python_page(), encoding="utf-8")
    (folder / "docs" / "ERRORS.md").write_text(errors_page(), encoding="utf-8")


def main(folder: Path) -> None:
    """Builds the site into a folder."""
    pages, configuration = folder / "pages", folder / "mkdocs.yml"
    sources(pages)
    settings = CONFIGURATION.read_text(encoding="utf-8")
    configuration.write_text(f"{settings}docs_dir: pages\nsite_dir: site\n", encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    subprocess.run([*command, "--config-file", str(configuration)], check=True)
    print(f"{folder / 'site' / 'index.html'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "out" / "site").resolve())
