"""Reports by HTTP: posts one JSON object and returns the JSON of the answer.

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
    """No answer, or a busy server: the request is sent again."""


def is_allowed(url: str, allowed: Iterable[str]) -> bool:
    """Whether a URL is below one of the allowed ones: the same scheme, host and port, and a path inside theirs.

    The address that a host name resolves to is not checked, since most reports go to servers of an internal network.
    Redirects are not followed, so a server that is allowed cannot send the request on to another one.
    """
    try:
        target = httpx.URL(url)
        bounds = [httpx.URL(text.strip()) for text in allowed if text.strip()]
    except (httpx.InvalidURL, TypeError):
        return False
    # Some servers decode a path before they resolve "..", so look at it as decoded.
    steps = unquote(target.path).replace("\\", "/").split("/")
    if target.userinfo or ".." in steps:
        return False
    return any(
        (target.scheme, target.host, target.port) == (bound.scheme, bound.host, bound.port)
        and f"{target.path}/".startswith(f"{bound.path.rstrip('/')}/")
        for bound in bounds
        if bound.scheme in ("http", "https") and bound.host
    )


def server_of(url: str) -> str:
    """Scheme, host and port of an address, for messages.

    Raises: InvalidArgumentError if it is not a URL of http or https.
    """
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        parts, port = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidArgumentError("the address to report to is not a URL: write http://host/path or https://host/path")
    return f"{parts.scheme}://{parts.hostname}{port}"


def post_json(url: str, body: Mapping[str, Any]) -> Any:
    """The JSON of the server's answer. Sent up to 4 times while the server does not answer, or is busy.

    Messages name the server and not the whole URL, which may contain a secret.

    Raises: InvalidArgumentError if `url` is not a URL of http or https; StorageError.
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
        raise StorageError(f"the report to {where} failed: {str(error) or type(error).__name__}") from None
    except ValueError:
        raise StorageError(f"the answer of {where} is not JSON") from None


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
