"""Loaded programs: calls, thread pools, stopping."""
