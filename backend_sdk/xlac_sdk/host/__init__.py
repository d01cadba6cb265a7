"""Running and packaging programs: calls, the C API, devices driven by the host."""
