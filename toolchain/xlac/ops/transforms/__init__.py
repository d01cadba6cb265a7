"""Operations that combine elements: reductions, products, order and statistics."""
