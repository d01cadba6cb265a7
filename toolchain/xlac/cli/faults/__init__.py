"""Verbs that tell whether a program is right, and what is at fault."""
