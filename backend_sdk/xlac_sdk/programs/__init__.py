"""Programs: steps, sizes and memory."""
