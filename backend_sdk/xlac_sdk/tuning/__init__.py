"""Facts of a device, measured by kernels of our own: `tune.tune` is all that callers need."""
