"""How each operation may be divided among ranks."""
