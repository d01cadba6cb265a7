"""Seeing what the compiler did, and finding what it did wrong."""
