"""The decisions of lowerings as values: shown, written to files, read back, and given by users."""
