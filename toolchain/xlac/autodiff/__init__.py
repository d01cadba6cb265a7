"""Derivatives of graphs: changes are pushed forwards, node by node; what is linear is transposed."""
