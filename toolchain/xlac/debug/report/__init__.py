"""A report of a compiled model: one document, and a page that shows it."""
