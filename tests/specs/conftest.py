"""Fixtures of the command line, for tests that compare it with the other ways in."""

from tests.cli.conftest import paimon, table

__all__ = ["paimon", "table"]
