"""Branches and tags: making them, taking them away, notifying others of them."""
