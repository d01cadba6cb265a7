"""Partitions a graph among the ranks of a mesh, which all run one program: docs/DISTRIBUTED.md."""
