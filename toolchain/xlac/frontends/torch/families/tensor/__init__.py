"""ATen operations on elements and their places: creation, views, indexing, order."""
