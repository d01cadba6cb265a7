"""What is written differently because it stands in a loop."""
