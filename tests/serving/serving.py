"""Starts MLServer over a folder of models."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

PACKAGES = ("mlserver", "tritonclient")
WITHOUT = next((name for name in PACKAGES if find_spec(name) is None), "")
RUNTIME = "xlac.integrations.mlserver.XlacRuntime"


SCORES = """\
xlac: 1
dims: {n: {min: 1, max: 64, opt: 8}}
inputs: {x: "f32[n, 16]"}
weights: {init: {seed: 0}}
graph:
  h: {op: linear, in: x, units: 8}
  p: softmax(h, axis=-1)
  best: argmax(p, axis=-1)
outputs: [p, best]
"""


def spec(folder: Path, text: str) -> Path:
    """A spec in a file."""
    (folder / "m.yaml").write_text(text, "utf-8")
    return folder / "m.yaml"


class Started(NamedTuple):
    """A server: its process, its ports, and the file of what it says."""

    process: subprocess.Popen[bytes]
    http: int
    grpc: int
    metrics: int
    log: Path

    def metric(self, name: str, model: str) -> float:
        """The value of one of the server's metrics."""
        with urlopen(f"http://127.0.0.1:{self.metrics}/metrics") as page:
            lines = page.read().decode().splitlines()
        return sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith(name + "{") and f'="{model}"' in line
        )


def settings(folder: Path, name: str, uri: str, **extra: Any) -> None:
    """The settings of one model, in a folder of its own."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    parameters = {"uri": uri, "extra": extra}
    said = {"name": name, "implementation": RUNTIME, "parameters": parameters}
    (folder / name / "model-settings.json").write_text(json.dumps(said), "utf-8")


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    holders = [socket.socket() for _ in range(count)]
    try:
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [holder.getsockname()[1] for holder in holders]
    finally:
        for holder in holders:
            holder.close()


@contextmanager
def server(folder: Path, **more: Any) -> Iterator[Started]:
    """MLServer over the models in a folder, once all are ready; ended with the block."""
    http, grpc, metrics = free_ports(3)
    ports = {"http_port": http, "grpc_port": grpc, "metrics_port": metrics}
    about = {**ports, "host": "127.0.0.1", "debug": False, **more}
    (folder / "settings.json").write_text(json.dumps(about), "utf-8")
    log = folder / "server.log"
    command = [str(Path(sys.executable).with_name("mlserver")), "start", "."]
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, cwd=folder, stdout=said, stderr=said, start_new_session=True
        )
    try:
        started = Started(process, http, grpc, metrics, log)
        while not ready(http):
            assert process.poll() is None, log.read_text("utf-8")
            time.sleep(0.1)
        yield started
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def ready(port: int) -> bool:
    """Whether a server answers that it and all its models are ready."""
    try:
        with closing(urlopen(f"http://127.0.0.1:{port}/v2/health/ready")) as page:
            return bool(page.status == 200)
    except OSError:
        return False


def infer(port: int, model: str, request: Mapping[str, Any]) -> tuple[int, Any]:
    """Status and answer of a request by HTTP as its JSON says."""
    url = f"http://127.0.0.1:{port}/v2/models/{model}/infer"
    head = {"Content-Type": "application/json"}
    try:
        with urlopen(Request(url, json.dumps(request).encode(), head)) as page:
            return page.status, json.load(page)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)
