"""Groups computed by one call of the target's library."""
