"""Compiled programs as their callers meet them: calls, results, sizes, and one program for each set
of sizes.
"""
