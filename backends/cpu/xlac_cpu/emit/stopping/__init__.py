"""Where compiled code checks whether it is to stop, and the function that it asks."""
