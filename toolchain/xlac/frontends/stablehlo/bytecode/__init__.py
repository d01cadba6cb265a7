"""Portable bytecode, decoded in a separate process."""
