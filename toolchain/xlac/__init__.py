"""xlac compiles graph specs to machine code."""

__version__ = "0.1.0"
