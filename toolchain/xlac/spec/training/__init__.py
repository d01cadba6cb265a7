"""The section `train`: what is minimised, and how weights change."""
