"""What a spec may say: the pydantic models, the JSON Schema, and settings of the caller."""
