"""Buffers, lifetimes and the arena: the place of every value in memory, decided at compile time."""
