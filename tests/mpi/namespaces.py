"""Two hosts on one machine: network namespaces joined by one link, which can be cut and shaped."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

HOSTS = ("10.77.0.1", "10.77.0.2")
KEEPALIVE = {"time": 4, "intvl": 1, "probes": 5}
NOTICING = tuple(
    word
    for name, value in KEEPALIVE.items()
    for word in ("--mca", f"oob_tcp_keepalive_{name}", str(value))
)
"""Options by which mpirun notices, within 10 seconds, that a host cannot be reached."""
AGENT = """\
#!/bin/sh
# starts a command on a host, as ssh would: in its network namespace
host=$1
shift
exec ip netns exec "{name}-${{host##*.}}" sh -c "$*"
"""


def without() -> str:
    """Why there can be none; "" where there can."""
    if os.geteuid():
        return "network namespaces want root"
    missing = [tool for tool in ("ip", "tc", "iptables") if not shutil.which(tool)]
    return f"{missing[0]} is missing: apt-get install iproute2 iptables" if missing else ""


@dataclass(frozen=True, slots=True)
class TwoHosts:
    """The hosts, and what starts commands there."""

    name: str
    agent: Path

    def mpirun(self, count: int, *options: str) -> list[str]:
        """The beginning of a command of `count` ranks, in turn on the two hosts, by TCP."""
        own = "10.77.0.0/24"
        given = [
            *("--mca", "plm_rsh_agent", str(self.agent), "--mca", "btl", "tcp,self"),
            *("--mca", "btl_tcp_if_include", own, "--mca", "oob_tcp_if_include", own),
            *("--host", ",".join(f"{host}:{count}" for host in HOSTS)),
            *(
                "--map-by",
                "node",
                "--bind-to",
                "none",
                "-n",
                str(count),
            ),  # both count the same cores
        ]
        return ["ip", "netns", "exec", f"{self.name}-1", "mpirun", *given, *options]

    def pids(self) -> dict[int, int]:
        """The processes of ranks, by rank."""
        found = {}
        for number in (1, 2):
            for pid in self._processes(number):
                with suppress(OSError):
                    about = Path(f"/proc/{pid}/environ").read_bytes()
                    if rank := re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", about):
                        found[int(rank[1])] = pid
        return found

    def cut(self) -> None:
        """Drops all that goes from one to the other, without a word to either."""
        for number in (1, 2):
            self._at(number, "iptables", "-A", "OUTPUT", "-o", "wire", "-j", "DROP")

    def mend(self) -> None:
        """Ends a cut."""
        for number in (1, 2):
            self._at(number, "iptables", "-F", "OUTPUT")

    def shape(self, rate: float | None) -> None:
        """Lets so many bytes a second pass in each direction; None: as many as can."""
        for number in (1, 2):
            place = ("dev", "wire", "root")
            with suppress(subprocess.CalledProcessError):
                self._at(number, "tc", "qdisc", "del", *place)
            if rate is not None:
                bits = f"{int(rate * 8)}bit"
                tbf = ("tbf", "rate", bits, "burst", "128kb", "latency", "200ms")
                self._at(number, "tc", "qdisc", "add", *place, *tbf)

    def end(self) -> None:
        """Ends what runs there."""
        for number in (1, 2):
            for pid in self._processes(number):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _processes(self, number: int) -> list[int]:
        asked = ("ip", "netns", "pids", f"{self.name}-{number}")
        told = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
        return [int(pid) for pid in told.split()]

    def _at(self, number: int, *command: str) -> None:
        full = ["ip", "netns", "exec", f"{self.name}-{number}", *command]
        subprocess.run(full, check=True, capture_output=True)


@contextmanager
def two_hosts(folder: Path) -> Iterator[TwoHosts]:
    """Makes the hosts, and removes them with all that runs there."""
    name = f"xlac{os.getpid()}"
    agent = folder / "agent.sh"
    agent.write_text(AGENT.format(name=name), "utf-8")
    agent.chmod(0o755)
    hosts = TwoHosts(name, agent)
    for number in (1, 2):
        _ip("netns", "add", f"{name}-{number}")
    try:
        ends = ("netns", f"{name}-1", "type", "veth", "peer", "name", "wire", "netns", f"{name}-2")
        _ip("link", "add", "wire", *ends)
        for number, host in enumerate(HOSTS, start=1):
            _ip("-n", f"{name}-{number}", "addr", "add", f"{host}/24", "dev", "wire")
            for device in ("lo", "wire"):
                _ip("-n", f"{name}-{number}", "link", "set", device, "up")
        for number in (1, 2):  # connections whose data nobody acknowledges end after 13 seconds
            hosts._at(number, "sh", "-c", "echo 5 > /proc/sys/net/ipv4/tcp_retries2")
        yield hosts
    finally:
        hosts.end()
        for number in (1, 2):
            _ip("netns", "del", f"{name}-{number}")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
