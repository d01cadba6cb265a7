"""Reductions on GPUs: along rows, along columns, and split over blocks."""
