"""Options and fixtures shared by every test."""

from __future__ import annotations

import gc
import shutil
import signal
from collections.abc import Callable, Generator
from zlib import crc32

import pytest
from cost import Cost
from goldens import Golden
from sampling import Some, left_out

from xlac_sdk.source import Diagnostic, UnsupportedError


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="accept the actual text as the golden text"
    )
    parser.addoption(
        "--cross", action="store_true", help="run what needs emulators of other machines too"
    )
    parser.addoption("--mpi", action="store_true", help="start ranks by mpirun, too")
    parser.addoption(
        "--gpu",
        action="store_true",
        help="run the cuda backend's tests on this machine's GPU, without the stand-in",
    )
    parser.addoption(
        "--cost",
        action="store_true",
        help="print the processor seconds of folders, files and tests",
    )
    parser.addoption("--all", action="store_true", help="run what takes minutes too")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--cost"):
        config.pluginmanager.register(Cost())
    # A shell that runs this in the background may have it ignore ctrl-C, and so all that it starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # what asks for a C compiler, in fixtures too, is skipped by the error that says so
    if shutil.which("cc") is None:
        UnsupportedError.__init__ = _skipping(UnsupportedError.__init__)  # type: ignore[method-assign]
    config.addinivalue_line("markers", "long: takes many seconds; run with --all alone")
    config.addinivalue_line(
        "markers",
        "sampled(n): one case of n is run, at least one of the test's, drawn by name; with --all, "
        "every one",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out cases of tests that are marked `sampled`. One alone, asked for by its name, is
    run.
    """
    if config.getoption("--all") or any("::" in name for name in config.args):
        return
    gone = left_out(items)
    items[:] = [item for item in items if item not in gone]
    config.hook.pytest_deselected(items=gone)


def pytest_collection_finish() -> None:
    """Everything that was imported stays: the garbage collector need not look at those 900,000
    objects whenever a test collects, which takes 0.6 s.
    """
    _keep_what_is_there()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Nor at what the tests of a file imported and cached: all that lives when a file is done."""
    done = yield
    if nextitem is not None and nextitem.path != item.path:
        _keep_what_is_there()
    return done


def _keep_what_is_there() -> None:
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """A tool that a test runs and that is not there is a reason to skip it. One test of eight,
    drawn by name, verifies the graph after every pass; with --all, every one.
    """
    try:
        with pytest.MonkeyPatch.context() as patch:
            if item.config.getoption("--all") or crc32(item.nodeid.encode()) % 8 == 0:
                patch.setenv("XLAC_VERIFY_EACH", "1")
            return (yield)
    except FileNotFoundError as missing:
        if str(missing.filename) in TOOLS:
            pytest.skip(f"no {missing.filename}")
        raise


TOOLS = ("cc", "gcc", "g++", "ar", "ld", "nm", "readelf", "make", "git")


def _skipping(init: Callable[..., None]) -> Callable[..., None]:
    def made(error: UnsupportedError, *diagnostics: Diagnostic) -> None:
        init(error, *diagnostics)
        if diagnostics and diagnostics[0].code == "XL5004":
            pytest.skip(diagnostics[0].message)

    return made


@pytest.fixture
def some(request: pytest.FixtureRequest) -> Some:
    """`some(cases, n)`: every n-th of the cases of one test; with --all, every one."""
    return lambda cases, n: cases[:: 1 if request.config.getoption("--all") else n]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(bool(request.config.getoption("--bless")))
