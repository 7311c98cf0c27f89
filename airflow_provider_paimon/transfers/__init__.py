"""Operators that copy rows into tables, and out of them."""
