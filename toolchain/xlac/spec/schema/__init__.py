"""The schema of specs: the pydantic models, the JSON Schema, and the caller's settings."""
