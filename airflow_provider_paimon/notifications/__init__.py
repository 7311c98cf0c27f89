"""Notifiers: reports of what tasks did."""
