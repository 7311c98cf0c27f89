"""Rows in, data files and commit messages out."""
