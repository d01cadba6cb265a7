"""ATen operations on complex numbers that are not linear with real coefficients."""
