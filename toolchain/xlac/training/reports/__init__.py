"""Reports on a training spec: which weights learn, and the memory of a step."""
