"""Facts of this machine, reported by its system or measured."""
