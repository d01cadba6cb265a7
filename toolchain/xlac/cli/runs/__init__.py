"""Parts of `xlac run`: the model, one rank of several, results."""
