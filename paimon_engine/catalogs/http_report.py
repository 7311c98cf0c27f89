"""Telling another server by HTTP: one JSON object there, one back.

Source: `HttpReportMarkDoneAction` of the Java library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

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


def is_allowed(url: str, allowed: Iterable[str]) -> bool:
    """Whether an address lies below one of those that are allowed: same scheme, host and port, and a path inside.

    A name is as good as the one who allows it: nobody looks at what it resolves to, since servers inside of a network
    are what most reports go to. Redirects are not followed, so that no server leads on to another one.
    """
    try:
        place = httpx.URL(url)
        bounds = [httpx.URL(text.strip()) for text in allowed if text.strip()]
    except (httpx.InvalidURL, TypeError):
        return False
    steps = unquote(place.path).replace("\\", "/").split("/")
    if place.userinfo or ".." in steps:
        return False
    return any(
        (place.scheme, place.host, place.port) == (bound.scheme, bound.host, bound.port)
        and f"{place.path}/".startswith(f"{bound.path.rstrip('/')}/")
        for bound in bounds
        if bound.scheme in ("http", "https") and bound.host
    )


def server_of(url: str) -> str:
    """Scheme, host and port of an address, for messages.

    Raises: InvalidArgumentError for an address that is none.
    """
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        parts, port = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidArgumentError("the address to report to is no URL: write http://host/path or https://host/path")
    return f"{parts.scheme}://{parts.hostname}{port}"


def post_json(url: str, body: Mapping[str, Any]) -> Any:
    """The JSON with which the server answers; asked again where it does not answer, or is busy.

    Messages name the server and not the whole address, which may hold a secret.

    Raises: InvalidArgumentError for an address that is none; StorageError.
    """
    where = server_of(url)
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
        response = httpx.post(url, json=dict(body), timeout=_TIMEOUT_S, follow_redirects=False)
    except httpx.TransportError as error:
        raise _AgainError(type(error).__name__) from None
    if response.status_code in _TRY_AGAIN:
        raise _AgainError(f"status {response.status_code}")
    if response.is_error or response.is_redirect:
        raise httpx.HTTPError(f"status {response.status_code}")
    return response
