"""Why a step that failed did: the node that made a number that is not finite."""
