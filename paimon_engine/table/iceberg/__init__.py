"""Iceberg's metadata of a table, kept in step with its snapshots."""
