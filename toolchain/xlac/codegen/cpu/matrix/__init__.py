"""Small matrices on a CPU: factored, or triangular systems solved, each in one kernel."""
