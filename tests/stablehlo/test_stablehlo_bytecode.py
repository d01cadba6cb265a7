"""Portable bytecode is decoded by a process of its own: what ends that one is an error here."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from xlac.frontends.stablehlo import load
from xlac.frontends.stablehlo.bytecode import read
from xlac_sdk.source import SourceError

pytest.importorskip("jaxlib.mlir")
ROOT = Path(__file__).parents[1]
GOOD = ROOT / "stablehlo" / "corpus" / "adam_update.mlirbc"


def test_bytes_that_end_the_decoder_are_an_error() -> None:
    with pytest.raises(SourceError, match=r"XL7211") as caught:
        load(ROOT / "fuzz" / "found" / "stablehlo_bytecode" / "ends_the_decoder.mlirbc")
    # a newer one may refuse it
    assert "jaxlib's decoder crashes" in str(caught.value) or "not StableHLO bytecode" in str(
        caught.value
    )


def test_decoding_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "SECONDS", 1)
    with pytest.raises(SourceError, match=r"takes more than 1 s of processor time.*XL7211"):
        load(Path(__file__).with_name("never_decoded.mlirbc"))


def test_a_decoder_that_was_ended_is_started_again(capfd: pytest.CaptureFixture[str]) -> None:
    decoder = read.Decoder()
    try:
        with read.using(decoder):
            whole = load(GOOD)
            types = [n.type for n in whole.graph.outputs.values()]
            os.kill(decoder.process.pid, signal.SIGKILL)
            decoder.process.wait()
            assert [n.type for n in load(GOOD).graph.outputs.values()] == types
            os.kill(decoder.process.pid, signal.SIGSTOP)  # so that it is ended during a request
            end = threading.Timer(0.2, os.kill, (decoder.process.pid, signal.SIGKILL))
            end.start()
            with pytest.raises(SourceError, match="SIGKILL"):
                load(GOOD)
            end.join()
            assert [n.type for n in load(GOOD).graph.outputs.values()] == types
            with pytest.raises(SourceError, match=r"XL7211.*") as caught:
                load(GOOD.read_bytes()[:100])
    finally:
        decoder.close()
    assert decoder.process.returncode == 0
    assert "remain" in str(caught.value)  # MLIR's own words
    assert capfd.readouterr() == ("", "")  # and only there
