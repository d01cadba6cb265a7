"""What the lowerings of one kind of group share on every device, by kind: all but the loops."""
