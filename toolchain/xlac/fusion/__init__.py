"""Which nodes become one kernel: groups, and the ways in which they grow."""
