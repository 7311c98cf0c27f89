"""Operators: one per action on a table."""
