"""Steps that take their batch in several micro-batches."""
