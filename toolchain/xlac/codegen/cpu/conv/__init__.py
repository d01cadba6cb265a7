"""Convolutions that are not products of matrices: depthwise, and Winograd's."""
