"""Commands that write a model, or a spec, in another form: a command a file."""
