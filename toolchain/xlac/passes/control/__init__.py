"""Passes over branches, loops and calls: data that enters and leaves their bodies."""
