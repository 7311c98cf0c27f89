"""Hooks: connections to warehouses."""
