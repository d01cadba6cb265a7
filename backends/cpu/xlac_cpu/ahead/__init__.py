"""Ahead-of-time packages: a program as objects, libraries and executables that need neither Python
nor LLVM nor a C library.

    variants -> weights.py: one block of constants -> unit.py: one LLVM module -> object ->
embed.py: the block inside
             -> linker.py: archive, shared library, executable

`package.py` is that pipeline as code; `open.py` loads a shared library into Python without a
compiler.
"""
