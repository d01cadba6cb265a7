"""The ground that every room stands on: hashes, the files a model was read from, errors of calls,
missing packages.
"""
