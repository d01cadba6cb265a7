"""Compiled programs as Python objects: calls, results, sizes, and one program for each set of
sizes.
"""
