"""Foundations: files, hashes, JSON schemas, limits."""
