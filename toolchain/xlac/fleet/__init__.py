"""One model over many items of data, by processes that know nothing of each other."""
