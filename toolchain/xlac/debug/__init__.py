"""Tools that show what the compiler did, and find what it did wrong."""
