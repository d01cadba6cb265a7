"""The commands, a file each, imported when asked for."""
