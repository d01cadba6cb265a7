"""The output of `xlac build`, and loading it without the compiler."""
