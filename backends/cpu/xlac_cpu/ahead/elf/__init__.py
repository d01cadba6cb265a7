"""A linker for 64-bit ELF: shared libraries and static executables from generated objects, for
machines without a linker.

`objects.py` reads object files, `relocations.py` has the processors' relocations, `image.py` lays
out a file, `linking.py` combines them.
"""
