"""Where sums over ranks are done."""
