"""Models divided by sequence."""
