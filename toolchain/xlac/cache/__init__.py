"""What is kept on disk of earlier compilations: docs/CACHE.md says what becomes of it."""
