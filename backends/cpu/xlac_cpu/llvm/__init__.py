"""LLVM at work: optimising, linking into this process, in processes of its own where it may
abort.
"""
