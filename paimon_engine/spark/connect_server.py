"""Whether a Spark Connect server answers, before anything waits for it.

The client of Spark tries again for minutes if no server listens, and calls on its channel have no deadline. So the
channel is tried first: it is ready once the server has answered in HTTP/2, which one that hangs does not.
"""

from __future__ import annotations

import contextlib
import uuid
from typing import Final

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.proto import AnalyzePlanRequest, ReleaseSessionRequest, SparkConnectServiceStub

from paimon_engine.errors import InvalidArgumentError, SparkError

READY_S: Final = 10.0
"""Time for the channel; network and handshake take a fraction of a second."""
_ANSWER_S: Final = 60.0
"""Time for a first answer: the server makes a session for it, which takes seconds on a busy machine."""
_REFUSALS: Final = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


def lost_after_a_minute() -> DefaultPolicy:
    """How often a call is tried again: for 45 s, instead of ten minutes; a server that was restarted knows no session.

    Its waits are 0.05, 0.2, 0.8, 3.2 and then 10 s.
    """
    return DefaultPolicy(max_retries=8, max_backoff=10_000, max_server_retry_delay=10_000)


def check_server(url: str) -> str:
    """The version of Spark that the server at `sc://host:port/;…` has.

    Raises: InvalidArgumentError if it refuses us; SparkError if nothing answers there; ValueError for an address that
    is none.
    """
    builder = DefaultChannelBuilder(url)
    channel = builder.toChannel()
    try:
        _wait_until_ready(channel, builder)
        server, session = SparkConnectServiceStub(channel), str(uuid.uuid4())
        who = {"session_id": session, "client_type": builder.userAgent}
        question = AnalyzePlanRequest(**who, spark_version=AnalyzePlanRequest.SparkVersion())
        question.user_context.user_id = builder.userId or ""
        answer = server.AnalyzePlan(question, timeout=_ANSWER_S, metadata=builder.metadata())
        version: str = answer.spark_version.version
        # The server would keep the session of this check for an hour if it were not released.
        end = ReleaseSessionRequest(**who, user_context=question.user_context)
        with contextlib.suppress(grpc.RpcError):
            server.ReleaseSession(end, timeout=_ANSWER_S, metadata=builder.metadata())
        return version
    except grpc.RpcError as error:
        raise _error(error, builder.endpoint) from error
    finally:
        channel.close()


def _wait_until_ready(channel: grpc.Channel, builder: DefaultChannelBuilder) -> None:
    """Raises: SparkError."""
    ready = grpc.channel_ready_future(channel)
    try:
        ready.result(timeout=READY_S)
    except grpc.FutureTimeoutError:
        how = "with TLS, as use_ssl or a token requires" if builder.secure else "without TLS"
        raise SparkError(
            f"No Spark Connect server answers at {builder.endpoint} ({how}) within {READY_S:.0f} s: check that it runs "
            "(start-connect-server.sh), host and port, firewalls between here and there, and whether it expects TLS"
        ) from None
    finally:
        ready.cancel()


def _error(error: grpc.RpcError, endpoint: str) -> InvalidArgumentError | SparkError:
    reason = error.details() or error.code().name
    if error.code() in _REFUSALS:
        return InvalidArgumentError(
            f"The Spark Connect server at {endpoint} refuses this user: {reason}; give the token of the connection, or "
            "another one"
        )
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return SparkError(f"The server at {endpoint} is not a Spark Connect server ({reason}): check host and port")
    return SparkError(f"The Spark Connect server at {endpoint} does not answer: {error.code().name}, {reason}")
