"""What a client sees of servers that are not there, hang, or are something else."""

from __future__ import annotations

import http.server
import socket
import threading

import pyspark
import pytest

from paimon_engine.errors import InvalidArgumentError, SparkError
from paimon_engine.spark import connect_server, connect_session

LONGEST_S = connect_server.READY_S


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_server, "READY_S", 1.0)


@pytest.mark.parametrize("listens", [False, True])
def test_a_server_that_is_dead_or_hangs_is_an_error(listens):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        address = f"127.0.0.1:{server.getsockname()[1]}"

        with pytest.raises(SparkError, match=f"No Spark Connect server answers at {address}") as failed:
            connect_session(f"sc://{address}/;user_id=me")

    assert "check that it runs" in str(failed.value)


def test_nobody_waits_longer_than_15_seconds():
    """The client itself tries for minutes."""
    assert LONGEST_S <= 15


def test_another_server_is_an_error():
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(SparkError, match=f"127.0.0.1:{server.server_port}"):
                connect_session(f"sc://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()


def test_a_host_without_an_address_is_an_error():
    with pytest.raises(SparkError, match="nowhere.invalid:15002"):
        connect_session("sc://nowhere.invalid")


def test_an_address_that_is_none_is_refused_without_its_token():
    with pytest.raises(InvalidArgumentError, match="sc://host:15002") as refused:
        connect_session("sc://h/path;token=very-secret")

    assert "very-secret" not in str(refused.value)


def test_a_server_says_which_spark_it_runs(connect_url):
    assert connect_server.check_server(connect_url) == pyspark.__version__
