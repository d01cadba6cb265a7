"""The commands, one per module, imported when used."""
