"""Branches, loops and calls, whose bodies are graphs."""
