"""Lowerings for CPUs, a file for each kind of group."""
