"""Keeps the folders of examples in the project, and those of several test runs apart."""

from __future__ import annotations

import os

from tests.support.reference import CACHE

# Before the examples are imported; a real Airflow that a test starts inherits it.
os.environ.setdefault("PAIMON_SYSTEM_TESTS", str(CACHE / "system"))
os.environ.setdefault("SYSTEM_TESTS_ENV_ID", str(os.getpid()))
