"""Verbs that check whether a program is right, and find what is at fault."""
