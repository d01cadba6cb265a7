"""Derivatives of graphs: tangents forwards, node by node; reverse mode transposes them."""
