"""Buffers, lifetimes and the arena: where every value lives, decided before anything runs."""
