"""The ground: files, hashes, schemas of JSON, limits."""
