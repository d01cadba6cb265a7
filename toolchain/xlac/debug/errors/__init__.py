"""How far results may be from exact arithmetic: the promised bounds, followed through a graph."""
