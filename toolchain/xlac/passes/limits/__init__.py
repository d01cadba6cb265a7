"""Passes that keep programs within the limits of a target's launches."""
