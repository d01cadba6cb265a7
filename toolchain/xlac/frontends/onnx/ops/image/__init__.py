"""Operators on images and their regions."""
