"""From validated entries to a graph."""
