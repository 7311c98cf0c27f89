"""Telling another server by HTTP: one JSON object there, one back.

Source: `HttpReportMarkDoneAction` of the Java library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import tenacity

from paimon_engine.errors import InvalidArgumentError, StorageError

_TIMEOUT_S: Final = 60
_TRIES: Final = 4
_FIRST_WAIT_S: Final = 0.2
_WAIT_MAX_S: Final = 5
_TRY_AGAIN: Final = frozenset({429, 502, 503, 504})


class _AgainError(Exception):
    """The server may answer another time."""


def post_json(url: str, body: Mapping[str, Any]) -> Any:
    """The JSON with which the server answers; asked again where it does not answer, or is busy.

    Messages name the server and not the whole address, which may hold a secret.

    Raises: InvalidArgumentError for an address that is none; StorageError.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidArgumentError("the address to report to is no URL: write http://host/path or https://host/path")
    where = f"{parts.scheme}://{parts.hostname}"
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_TRIES),
        wait=tenacity.wait_random_exponential(multiplier=_FIRST_WAIT_S, max=_WAIT_MAX_S),
        retry=tenacity.retry_if_exception_type(_AgainError),
        reraise=True,
    )
    try:
        response = retrying(_post, url, body)
        return response.json()
    except (_AgainError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise StorageError(f"{where} could not be told: {str(error) or type(error).__name__}") from None
    except ValueError:
        raise StorageError(f"{where} answered with something else than JSON") from None


def _post(url: str, body: Mapping[str, Any]) -> httpx.Response:
    try:
        response = httpx.post(url, json=dict(body), timeout=_TIMEOUT_S)
    except httpx.TransportError as error:
        raise _AgainError(type(error).__name__) from None
    if response.status_code in _TRY_AGAIN:
        raise _AgainError(f"status {response.status_code}")
    if response.is_error:
        raise httpx.HTTPError(f"status {response.status_code}")
    return response
