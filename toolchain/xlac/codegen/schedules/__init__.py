"""What lowerings choose, as values: shown, written, read back and given from outside."""
