"""Ahead of time: a program as objects, libraries and programs that need neither Python nor LLVM nor
a C library.

    variants -> weights.py: one block of constants -> unit.py: one LLVM module -> object ->
    embed.py: the block inside
             -> link.py: archive, shared library, program

`package.py` is that line as code; `open.py` makes a shared library callable from Python without a
compiler.
"""
