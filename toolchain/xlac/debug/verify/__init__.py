"""`xlac verify`: whether a compiled program computes what its model means, node by node."""
