"""Recognizes attention that was written by hand, and makes the operation of it."""
