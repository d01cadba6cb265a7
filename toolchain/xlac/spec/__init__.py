"""YAML specs: text with positions, validated, elaborated into a graph, and written back."""
