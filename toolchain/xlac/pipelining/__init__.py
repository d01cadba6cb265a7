"""A model whose stages are on different ranks, and its micro-batches: docs/DISTRIBUTED.md."""
