"""What a target's libraries may compute whole."""
