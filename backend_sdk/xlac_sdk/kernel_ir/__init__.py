"""Kernel IR: its grammar, primitives and their meaning, how it is written, verified and
interpreted.
"""
