"""Contractions in canonical form: dot products and convolutions, their operands, packing
and tiles.
"""
