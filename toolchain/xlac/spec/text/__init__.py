"""The text of specs: YAML and expressions with their places, and writing it."""
