"""Contractions of bytes by a processor's matrix unit."""
