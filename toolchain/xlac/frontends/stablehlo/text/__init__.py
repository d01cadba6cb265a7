"""The text of MLIR: words, types, attributes, modules, operations."""
