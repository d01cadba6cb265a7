"""The loop around a step: epochs over data, metrics, checkpoints, and going on where a run ended."""
