"""Running programs and packaging them: calls, the C API, devices that the host drives."""
