"""Blocks of a spec: parts of a graph that can be used several times."""
