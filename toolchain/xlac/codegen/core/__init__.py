"""What lowerings for CPUs and GPUs share: values, access patterns, loop nests, operands,
summation.
"""
