"""The tables of rewrite rules, one subject a module."""
