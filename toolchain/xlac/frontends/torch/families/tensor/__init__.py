"""ATen operations that create, view, index and order elements."""
