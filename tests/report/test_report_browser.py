"""Reports opened in a headless Chromium: `make test-report`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hostile
import pytest
from test_report_document import SPECS, document

from xlac.debug.report import page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


class OpenPage:
    """A report in the browser, and what the browser had to say about it."""

    def __init__(self, browser: Any, file: Path, theme: str = "light") -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme=theme)
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("[data-ready]", state="attached")

    def tab(self, name: str) -> None:
        """Goes to a page of the report."""
        self.page.click(f"#tab-{name}")
        if name == "graph":
            self.page.wait_for_selector(".node")
            self.page.wait_for_selector(".busy", state="hidden")

    def until(self, condition: str) -> None:
        """Waits until a condition in JavaScript holds; the page's policy forbids Playwright's own
        way.
        """
        end = time.monotonic() + 30
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, condition
            time.sleep(0.05)

    def items(self) -> list[str]:
        """The nodes and blocks that are drawn."""
        return self.page.eval_on_selector_all(".node", "all => all.map(e => e.dataset.item)")

    def check(self) -> None:
        """Nothing was said, and nothing but the file and its worker was loaded."""
        assert not self.problems
        kinds = [url.split(":")[0] for url in self.requests]
        assert kinds[0] == "file" and set(kinds[1:]) <= {"blob"}
        assert not self.page.evaluate("window.broken")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as play:
        made = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "resnet50.html"
    file.write_text(page.page(document(SPECS / "resnet50.yaml")))
    return file


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_opens_without_a_word(browser: Any, resnet: Path, theme: str) -> None:
    opened = OpenPage(browser, resnet, theme)
    for name in opened.page.eval_on_selector_all(".tab", "all => all.map(e => e.id.slice(4))"):
        opened.tab(name)
        assert opened.page.locator(f"#panel-{name}").inner_text().strip()
    assert opened.page.evaluate("document.documentElement.dataset.theme") == theme
    opened.check()


def test_blocks_open_and_close(browser: Any, resnet: Path) -> None:
    opened = OpenPage(browser, resnet)
    opened.tab("graph")
    opened.page.click("text=Close all")
    opened.until("document.querySelectorAll('.node').length < 15")
    closed = set(opened.items())
    opened.page.keyboard.press("Tab")
    opened.page.locator(".node.block").first.focus()
    opened.page.locator(".node.block").first.press("ArrowDown")
    picked = opened.page.get_attribute(".node.picked", "data-item")
    opened.page.locator(".node.block").first.click(position={"x": 30, "y": 10})
    opened.page.keyboard.press("Enter")
    opened.page.wait_for_selector(".node.open")
    assert picked in closed and closed < set(opened.items())
    opened.page.keyboard.press("Enter")
    opened.until("!document.querySelector('.node.open')")
    assert set(opened.items()) == closed
    opened.check()


def test_search_opens_what_is_around(browser: Any, resnet: Path) -> None:
    opened = OpenPage(browser, resnet)
    opened.page.keyboard.press("/")
    opened.page.keyboard.type("c4.3.b.conv")
    opened.page.wait_for_selector(".hit")
    opened.page.keyboard.press("Enter")
    opened.page.wait_for_selector(".node.picked")
    side = opened.page.locator(".side").inner_text()
    assert "c4.3.b.conv" in side and "conv2d" in side and "c4.3.b.conv.weight" in side
    assert "RESNET50.YAML:23" in side and "WHY NO MORE" in side
    opened.page.click(".side .link:has-text('conv_')")
    assert opened.page.locator(".pane").nth(1).inner_text().count("define ")
    assert opened.page.locator(".pane .row.on").count()
    opened.check()


def test_keys_alone_reach_every_page(browser: Any, resnet: Path) -> None:
    opened = OpenPage(browser, resnet)
    for key, title in (("3", "Fusion"), ("4", "Passes"), ("5", "Memory")):
        opened.page.keyboard.press(key)
        assert opened.page.locator(".panel:not([hidden]) h2").first.inner_text() == title
    opened.page.keyboard.press("t")
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "dark"
    opened.page.keyboard.press("?")
    assert opened.page.locator("dialog[open]").count() == 1
    opened.check()


def test_hostile_names_do_nothing(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "hostile.html"
    file.write_text(page.page(hostile.document()))
    opened = OpenPage(browser, file)
    for name in opened.page.eval_on_selector_all(".tab", "all => all.map(e => e.id.slice(4))"):
        opened.tab(name)
    shown = opened.page.locator(".top .model").inner_text()
    assert shown == hostile.NAMES[0]
    opened.page.keyboard.press("/")
    opened.page.keyboard.type("window.broken")
    opened.page.wait_for_selector(".hit")
    opened.page.keyboard.press("Enter")
    opened.page.wait_for_selector(".node.picked")
    assert opened.page.locator("img, iframe, object, embed").count() == 0
    opened.check()


def test_twenty_thousand_nodes_open_in_time(browser: Any, tmp_path: Path) -> None:
    """Without blocks of the model's own: page and graph within five seconds, and no word."""
    many, last, lines = 20_000, "x", list[str]()
    for number in range(many):
        kind = "tanh" if number % 20 else "linear, units: 8"
        lines.append(f"  n{number}: {{op: {kind}, in: {last}}}")
        last = f"n{number}"
    text = "xlac: 1\nmodel: long\ninputs: {x: 'f32[4, 8]'}\nweights: {init: {seed: 0}}\ngraph:\n"
    spec, file = tmp_path / "long.yaml", tmp_path / "long.html"
    spec.write_text(text + "\n".join(lines) + f"\noutputs: [{last}]\n")
    file.write_text(page.page(document(spec)))
    assert file.stat().st_size <= 25e6
    begun = time.monotonic()
    opened = OpenPage(browser, file)
    opened.tab("graph")
    assert time.monotonic() - begun < 5 and len(opened.items()) <= 160
    opened.page.press("svg[role=application]", "Enter")
    opened.check()
