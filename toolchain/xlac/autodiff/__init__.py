"""Derivatives of graphs: tangents are computed forwards, node by node; reverse mode transposes them."""
