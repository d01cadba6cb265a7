"""Why a step failed: the node that produced a number that is not finite."""
