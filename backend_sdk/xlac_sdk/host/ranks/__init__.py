"""Ranks that run one program together: what carries their collectives."""
