"""Where compiled code looks whether it is to stop, and the function that it asks."""
