"""From commit messages to the next snapshot, exactly once."""
