"""Portable bytecode, decoded by a process of its own."""
