"""The cache of compilations on disk, described in docs/CACHE.md."""
