"""Commands that convert a model or a spec to another form, one per module."""
