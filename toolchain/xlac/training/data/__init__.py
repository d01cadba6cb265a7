"""What is trained on: files, folders and Python iterables become batches of a step's inputs, in an
order that a seed decides.
"""
