"""Branches and tags: making them, taking them away, telling others of them."""
