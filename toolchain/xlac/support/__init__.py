"""The foundation of the other packages: hashes, files that a model depends on, errors of calls,
missing packages.
"""
