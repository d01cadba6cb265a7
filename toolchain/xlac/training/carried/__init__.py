"""What a model carries from call to call by itself (`state` in its spec), while it is trained."""
