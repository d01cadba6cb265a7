"""Loops of small bodies, each made one kernel."""
