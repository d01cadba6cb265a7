"""Operations that make, move and pick elements."""
