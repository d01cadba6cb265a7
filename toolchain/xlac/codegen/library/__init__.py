"""Groups that the target's library computes as one call."""
