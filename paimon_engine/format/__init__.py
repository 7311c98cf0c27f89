"""Bytes to values and back: one module per file format. No IO beyond the handed-in files, no table options."""
