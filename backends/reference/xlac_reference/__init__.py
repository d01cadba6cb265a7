"""The reference backend."""

__version__ = "0.1.0"
