"""The cpu backend: kernels become machine code through LLVM text, with no C compiler."""

from xlac_cpu.backend import CpuBackend

__version__ = "0.1.0"

BACKEND = CpuBackend()
