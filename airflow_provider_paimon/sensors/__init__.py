"""Sensors that wait for a table."""
