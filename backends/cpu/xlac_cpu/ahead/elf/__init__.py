"""A linker for 64-bit ELF: shared libraries and static programs of our own objects, on machines
that have no linker.

`objects.py` reads object files, `relocations.py` knows the processors, `image.py` lays a file out,
`linking.py` is the way through them.
"""
