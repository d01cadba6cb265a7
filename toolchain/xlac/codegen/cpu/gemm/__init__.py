"""Matrix products on CPUs: cache blocking, register tiles, packing, and the loops around them."""
