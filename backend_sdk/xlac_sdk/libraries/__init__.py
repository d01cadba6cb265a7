"""Operations that a target's libraries compute whole."""
