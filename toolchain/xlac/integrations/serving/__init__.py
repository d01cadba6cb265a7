"""A model behind the Open Inference Protocol: what a server's runtime needs and no server has."""
