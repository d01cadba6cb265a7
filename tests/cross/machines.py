"""Machines other than this one that programs are compiled for and run on here, by emulators."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from xlac_sdk.target import Request

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Other:
    """A machine: what it is called, how it is compiled for, and what runs its programs."""

    name: str
    triple: str
    cpu: str
    runs: tuple[str, ...]

    @property
    def request(self) -> Request:
        return Request(triple=self.triple, cpu=self.cpu)

    @property
    def bare(self) -> bool:
        """Without an operating system."""
        return "-none-" in self.triple

    @property
    def wasm(self) -> bool:
        return self.triple.startswith("wasm")

    @property
    def missing(self) -> str:
        """A tool that is needed and not there."""
        needed = (self.runs[0], "wasm-ld") if self.wasm else (self.runs[0], "ld.lld", "clang")
        return next((tool for tool in needed if shutil.which(tool) is None), "")

    def run(
        self, program: Path, *arguments: str, given: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a program in its folder. Without an operating system it reads the file `given` and
        writes `made`.
        """
        command = [*self.runs, str(program), *arguments]
        if not self.bare:
            return subprocess.run(
                command,
                input=given,
                cwd=program.parent,
                capture_output=True,
                timeout=1800,
                check=False,
            )
        (program.parent / "given").write_bytes(given)
        done = subprocess.run(
            command,
            cwd=program.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=1800,
            check=False,
        )
        made = program.parent / "made"
        return subprocess.CompletedProcess(
            command, done.returncode, made.read_bytes() if made.exists() else b"", done.stderr
        )


MACHINES = (
    Other("x86-64", "x86_64-unknown-linux-gnu", "x86-64", ("qemu-x86_64", "-cpu", "qemu64")),
    Other("x86-64-v2", "x86_64-unknown-linux-gnu", "x86-64-v2", ("qemu-x86_64", "-cpu", "Nehalem")),
    Other("x86-64-v3", "x86_64-unknown-linux-gnu", "x86-64-v3", ("qemu-x86_64", "-cpu", "max")),
    Other(
        "aarch64", "aarch64-unknown-linux-gnu", "cortex-a72", ("qemu-aarch64", "-cpu", "cortex-a72")
    ),
    Other("armv7", "armv7-unknown-linux-gnueabihf", "cortex-a9", ("qemu-arm", "-cpu", "cortex-a9")),
    Other(
        "thumb", "thumbv7-unknown-linux-gnueabihf", "cortex-a7", ("qemu-arm", "-cpu", "cortex-a7")
    ),
    Other("riscv64", "riscv64-unknown-linux-gnu", "", ("qemu-riscv64", "-cpu", "rv64")),
    Other(
        "riscv64-v",
        "riscv64-unknown-linux-gnu",
        "generic-rv64+m+a+f+d+c+v",
        ("qemu-riscv64", "-cpu", "rv64,v=true,vlen=128"),
    ),
    Other("wasm32", "wasm32-unknown-unknown", "", ("node", str(HERE / "run.mjs"))),
    Other(
        "cortex-m4",
        "thumbv7em-none-eabihf",
        "cortex-m4",
        ("qemu-system-arm", "-M", "mps2-an386", "-display", "none", "-semihosting", "-kernel"),
    ),
)
