"""Bytes that are multiplied and looked up many at once."""
