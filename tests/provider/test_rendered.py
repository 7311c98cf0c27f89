from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_paimon.rendered import duration_ms, flag, moment_ms, number
from paimon_engine import InvalidArgumentError

NOW = datetime(2013, 1, 8, tzinfo=UTC)
DAY_MS = 86_400_000


@pytest.mark.parametrize(("given", "value"), [(3, 3), ("3", 3), (" 3 ", 3), (None, None), ("", None), ("None", None)])
def test_numbers(given, value):
    assert number("n", given) == value


@pytest.mark.parametrize("given", ["three", "3.5", 3.5, True, [3]])
def test_no_numbers(given):
    with pytest.raises(InvalidArgumentError, match="n="):
        number("n", given)


@pytest.mark.parametrize(("given", "value"), [(True, True), ("True", True), ("false", False), ("0", False)])
def test_flags(given, value):
    assert flag("f", given) is value


@pytest.mark.parametrize("given", ["", "maybe", None])
def test_no_flags(given):
    with pytest.raises(InvalidArgumentError, match="f="):
        flag("f", given)


@pytest.mark.parametrize(
    ("given", "value"),
    [(timedelta(hours=36), 129_600_000), ("36 h", 129_600_000), ("1d", DAY_MS), ("250", 250), ("", None), (None, None)],
)
def test_time_spans(given, value):
    assert duration_ms("d", given) == value


@pytest.mark.parametrize("given", ["soon", "3 fortnights", "-1 d"])
def test_no_time_spans(given):
    with pytest.raises(InvalidArgumentError, match="d="):
        duration_ms("d", given)


@pytest.mark.parametrize(
    "given",
    [
        datetime(2013, 1, 1, tzinfo=UTC),
        datetime(2013, 1, 1),
        "2013-01-01",
        "2013-01-01T00:00:00+00:00",
        "2013-01-01T01:00:00+01:00",
        timedelta(days=7),
        "7 d",
        1_356_998_400_000,
        "1356998400000",
    ],
)
def test_moments(given):
    assert moment_ms("m", given, now=NOW) == 1_356_998_400_000


@pytest.mark.parametrize("given", ["yesterday", "2013-13-01"])
def test_no_moments(given):
    with pytest.raises(InvalidArgumentError, match="an age such as"):
        moment_ms("m", given, now=NOW)
