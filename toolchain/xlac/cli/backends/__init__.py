"""The commands of `xlac backend`, and what they print."""
