"""Error bounds of results: the documented bounds of operations, propagated through a graph."""
