"""Training data: files, folders and Python iterables become batches of a step's inputs, shuffled by
a seed.
"""
