"""Calls in flight, beside other work."""
