"""Deleting files that nothing needs any more, and restoring them."""
