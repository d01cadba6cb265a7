"""Counters of the processor and of the system, beside the time of calls."""
