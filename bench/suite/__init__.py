"""xlac beside its peers: rows in classes, processes as samples, verdicts by corrected intervals."""
