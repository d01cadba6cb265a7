"""Merges loops with small bodies into one kernel each."""
