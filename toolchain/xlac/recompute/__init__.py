"""What is computed again so that a program stays within a limit of memory, and in which order."""
