"""`xlac verify`: checks that a compiled program computes what its model defines, node by node."""
