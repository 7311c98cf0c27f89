"""Deleting what nothing needs any more, and bringing it back."""
