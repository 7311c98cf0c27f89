"""From a request to rows: planning, pruning, merging."""
