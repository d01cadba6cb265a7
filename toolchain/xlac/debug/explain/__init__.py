"""What each node of a model became: `xlac explain`."""
