"""Ways in besides the spec language: each ends in the same graph."""
