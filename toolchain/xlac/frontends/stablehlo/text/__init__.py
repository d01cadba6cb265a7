"""Parser of MLIR text: lexer, types, attributes, modules, operations."""
