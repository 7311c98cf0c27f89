"""Links from tasks to their tables."""
