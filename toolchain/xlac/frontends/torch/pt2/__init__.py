"""Files of exported programs (.pt2): what an archive holds, read without executing any of it."""
