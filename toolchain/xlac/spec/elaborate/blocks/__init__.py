"""Blocks of a spec: parts of a graph that are used under several names."""
