"""Passes: graph to graph, one pass a module; `pipeline` has their order."""
