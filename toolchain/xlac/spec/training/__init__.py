"""The section `train` of a spec: losses, optimizers, learning rates, and options of a step."""
