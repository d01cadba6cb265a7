"""The tables of rules; each module is one subject."""
