"""A GPU: its driver, memory and arrays."""
