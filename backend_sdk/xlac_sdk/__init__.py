"""The contract between the toolchain and a backend: kernels in, an executable out."""

__version__ = "0.1.0"
