"""Graph to graph: each module is one pass; `pipeline` is their order."""
