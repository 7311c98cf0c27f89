"""Notifiers: who is told of what tasks did."""
