"""The training loop: epochs over data, metrics, checkpoints, and resuming a run where it ended."""
