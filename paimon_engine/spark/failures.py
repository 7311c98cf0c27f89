"""The one place where errors of Spark, of its gateway to the JVM and of its connections become ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from paimon_engine import errors
from paimon_engine.errors import NotFoundError, PaimonError, SparkError

try:
    from py4j.protocol import Py4JError
except ImportError:  # The Connect client alone comes without py4j, and then nothing raises its errors.
    Py4JError = PySparkException

_OUR_ERROR = re.compile(r"^paimon_engine\.errors\.(\w+): (.*)$", re.MULTILINE)
_LACKS_ENGINE = "No module named 'paimon_engine'"
_SHIP = (
    " because its workers lack the engine; install it there, or send it with paimon_engine.spark.ship_engine(session)"
)
_IS_STREAM = "Queries with streaming sources"
_BY_BATCH = "; a stream is written batch by batch: stream.writeStream.foreachBatch(…), see docs/spark.md"
_KEEP = (
    "if its snapshot has expired, make the DataFrame again, for reads that take long of a tag: "
    "table.create_tag(name, time_retained='1 d'), table.to_spark(tag=name)"
)
_FILE_IS_MISSING = re.compile(r"\[(?:FAILED_READ_FILE\.FILE_NOT_EXIST|PATH_NOT_FOUND)\][^\n]*")
_SPARK_ERRORS = (PySparkException, Py4JError, OSError)


@contextmanager
def spark_calls(what: str) -> Iterator[None]:
    """Around calls to Spark; `what` says what failed if one does, such as `Spark gave the job up`.

    An error of ours that was raised in a worker keeps its class and text.

    Raises: NotFoundError if a file is missing, SparkError for all else, with Spark's error as the cause.
    """
    try:
        yield
    except _SPARK_ERRORS as error:
        text = str(error)
        ours = _OUR_ERROR.search(text)
        kind = getattr(errors, ours[1], None) if ours else None
        if ours and isinstance(kind, type) and issubclass(kind, PaimonError):
            raise kind(ours[2]) from error
        if missing := _FILE_IS_MISSING.search(text):
            raise NotFoundError(
                f"{what}, as a file that it reads is missing; {_KEEP}. Spark says: {missing[0]}"
            ) from error
        remedy = _SHIP if _LACKS_ENGINE in text else _BY_BATCH if _IS_STREAM in text else ""
        raise SparkError(f"{what}{remedy}: {_without_java_stack(text)}") from error


def _without_java_stack(message: str) -> str:
    return "\n".join(line for line in message.splitlines() if not line.lstrip().startswith(("at ", "...")))
