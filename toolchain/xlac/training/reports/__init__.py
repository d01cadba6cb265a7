"""What a spec that trains learns, and the memory that a step takes."""
