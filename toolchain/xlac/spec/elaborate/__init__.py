"""Elaboration: from validated entries to a graph."""
