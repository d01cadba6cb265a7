"""What this machine is like: what its system tells, and what is measured."""
