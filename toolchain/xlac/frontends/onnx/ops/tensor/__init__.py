"""Operators that make, move and pick elements."""
