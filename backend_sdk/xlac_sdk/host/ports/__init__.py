"""Parts of ports that several drivers need."""
