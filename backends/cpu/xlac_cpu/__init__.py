"""The cpu backend: kernels become machine code through LLVM text, with no C compiler."""

from xlac_cpu.backend import CpuBackend

BACKEND = CpuBackend()
