"""Stop checks in compiled code: their places, and the function that they call."""
