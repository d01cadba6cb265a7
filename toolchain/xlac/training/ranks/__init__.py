"""Training among the ranks of a mesh: docs/DISTRIBUTED.md."""
