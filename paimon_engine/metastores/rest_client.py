"""Requests to a REST catalog: paths, authentication, retries, and the engine's errors.

GET requests are retried with exponential back-off; so is every request that certainly did not reach the server, or that
it refused since it has too many (429). All others are sent once: if the answer is lost or unclear, the caller gets
`OutcomeUnknownError` and has to find out. What stands between, a gateway or proxy, may answer instead of the server, or
send a request twice.

Source: `rest-catalog-open-api.yaml`, `RESTApi`, `ResourcePaths`, `DefaultErrorHandler` of the Java library.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx
import tenacity

from paimon_engine.env import now_ms
from paimon_engine.errors import (
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    OutcomeUnknownError,
    PaimonError,
    StorageError,
    UnsupportedError,
    shown,
    shown_cause,
)
from paimon_engine.metastores.config import HEADER_PREFIX, URI, CatalogConfig, with_prefix
from paimon_engine.metastores.rest_auth import Auth, Request, auth_of
from paimon_engine.secrecy import without_secrets

T = TypeVar("T")

_TIMEOUT_S: Final = 180
_CONNECT_TIMEOUT_S: Final = 30
_TRIES: Final = 6
_FIRST_WAIT_S: Final = 0.2
_WAIT_MAX_S: Final = 10
_TOO_MANY: Final = 429
_TRY_AGAIN: Final = frozenset({_TOO_MANY, 502, 503, 504})
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_PAGES_MAX: Final = 100_000
"""Ends the loop if a faulty server always returns a next page."""


class RestNotFoundError(NotFoundError):
    """The server has no such resource; `resource` is its type as the server gives it (`TABLE`), None if it does not."""

    def __init__(self, message: str, resource: str | None) -> None:
        super().__init__(message)
        self.resource = resource


class RestDeniedError(StorageError):
    """The server does not accept the credentials, or does not permit the request."""


class RestClient:
    """Client for one server and warehouse. Thread-safe."""

    def __init__(self, config: CatalogConfig) -> None:
        """Requests the server's configuration; ours overrides its `defaults`, its `overrides` override ours.

        Raises: InvalidArgumentError, UnsupportedError, StorageError.
        """
        values = config.values()
        uri = values.get(URI, "").strip().rstrip("/")
        if not uri:
            raise InvalidArgumentError("a REST catalog needs 'uri', for example http://localhost:8080")
        self._uri = uri if uri.startswith(("http://", "https://")) else f"http://{uri}"
        self._shown = without_secrets(self._uri)
        if self._shown != self._uri:
            raise InvalidArgumentError(
                f"the REST catalog's 'uri' ({self._shown}) contains a user or a password, which logs and messages "
                "would show; authenticate with 'token.provider' and its options"
            )
        self._auth: Auth = auth_of(values)
        self._headers = with_prefix(values, HEADER_PREFIX)
        self._http = httpx.Client(timeout=httpx.Timeout(_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S))
        where = f"{self._shown}/v1/config"
        try:
            answer = self._send("GET", "/v1/config", {"warehouse": config.warehouse})
            defaults, overrides = (texts(answer, key, where) for key in ("defaults", "overrides"))
        except BaseException:
            self.close()
            raise
        self.options: dict[str, str] = {**defaults, **values, **overrides}
        self._headers = with_prefix(self.options, HEADER_PREFIX)
        self._prefix = f"/v1/{self.options.get('prefix', '')}".rstrip("/")

    def __repr__(self) -> str:
        return f"RestClient({self._shown!r})"

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def get(self, *path: str) -> dict[str, Any]:
        """The answer to a GET request. Raises: RestNotFoundError, StorageError."""
        return self._send("GET", self._path(path), {})

    def post(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a POST request, which is sent once, or again if nothing was done.

        Raises: OutcomeUnknownError if the answer was lost or is unclear; ConflictError if a name is taken;
        InvalidArgumentError, UnsupportedError, RestNotFoundError, StorageError if the server says that it refuses.
        """
        return self._send("POST", self._path(path), {}, json.dumps(body, ensure_ascii=False))

    def delete(self, *path: str) -> None:
        """Sends a DELETE request once. Raises: RestNotFoundError, OutcomeUnknownError, StorageError."""
        self._send("DELETE", self._path(path), {})

    def pages(self, *path: str, key: str) -> Iterator[str]:
        """The names of all pages of a list."""
        token, where = None, f"{self._shown}{self._path(path)}"
        for _ in range(_PAGES_MAX):
            answer = self._send("GET", self._path(path), {} if token is None else {"pageToken": token})
            items = part(answer, key, list, where) or []
            if not all(isinstance(item, str) for item in items):
                raise unclear("GET", where, f"'{key}' has other things than names: {shown(items)}")
            yield from items
            token = part(answer, "nextPageToken", str, where) or None
            if token is None or not items:
                return

    # ── one request ─────────────────────────────────────────────────────────────────────────────

    def _path(self, parts: tuple[str, ...]) -> str:
        return "/".join([self._prefix, *(quote(part, safe="") for part in parts)])

    def _send(self, method: str, path: str, parameters: Mapping[str, str], body: str | None = None) -> dict[str, Any]:
        """The JSON object that the server answers; empty for an empty answer. Tries again as the protocol asks.

        Raises: StorageError, or the error of the answer.
        """
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(_TRIES),
            wait=_wait,
            retry=tenacity.retry_if_exception_type(_Again),
        )
        try:
            response = retrying(self._try, method, path, parameters, body)
        except tenacity.RetryError as error:
            raise StorageError(f"{method} {self._shown}{path}: {error.last_attempt.exception()}") from shown_cause(
                error
            )
        if response.is_error:
            raise _error(response, method, f"{self._shown}{path}")
        if not response.content.strip():
            return {}
        answer = _json(response)
        if not isinstance(answer, dict):
            raise unclear(method, f"{self._shown}{path}", "the answer is not a JSON object")
        return answer

    def _try(self, method: str, path: str, parameters: Mapping[str, str], body: str | None) -> httpx.Response:
        """Sends one request. Raises: _Again if it may be sent again; OutcomeUnknownError, StorageError otherwise."""
        request = Request(method, path, parameters, body)
        headers = {"Accept": "application/json", **self._headers, **self._auth.headers(request, now_ms())}
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        content = None if body is None else body.encode()
        url = f"{self._uri}{path}"
        try:
            response = self._http.request(method, url, params=dict(parameters), headers=headers, content=content)
        except _NOT_SENT as error:
            raise _Again(f"no connection: {error}") from shown_cause(error)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = f"{type(error).__name__}: {error}"
            if method == "GET" and isinstance(error, httpx.TransportError):
                raise _Again(reason) from shown_cause(error)
            where = f"{method} {self._shown}{path}"
            if isinstance(error, httpx.TransportError):
                raise OutcomeUnknownError(f"{where}: may or may not have been done: {reason}") from shown_cause(error)
            raise StorageError(f"{where}: {reason}") from shown_cause(error)
        if response.status_code == _TOO_MANY or (method == "GET" and response.status_code in _TRY_AGAIN):
            raise _Again(f"status {response.status_code}", response.headers.get("Retry-After"))
        return response


class _Again(Exception):  # noqa: N818 - an outcome of a try, not an error
    """Nothing was changed, and the request may be sent again; `after` is the server's `Retry-After`, in seconds."""

    def __init__(self, reason: str, after: str | None = None) -> None:
        super().__init__(reason)
        self.after = after


_GROWING = tenacity.wait_exponential(multiplier=_FIRST_WAIT_S, max=_WAIT_MAX_S) + tenacity.wait_random(0, _FIRST_WAIT_S)


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    after = error.after if isinstance(error, _Again) else None
    # HTTP allows a date instead of seconds; no known server sends one with these status codes.
    asked = float(after) if after is not None and after.isdigit() else 0.0
    return max(_GROWING(state), min(asked, _TIMEOUT_S))


@lru_cache(maxsize=64)
def _client(_process: int, config: CatalogConfig, _values: tuple[tuple[str, str], ...]) -> RestClient:
    # The process id is part of the cache's key, since a forked process must not use connections of its parent.
    client = RestClient(config)
    atexit.register(client.close)
    return client


def client_of(config: CatalogConfig) -> RestClient:
    """The client of a catalog, one per process and set of options. Raises: as `RestClient`."""
    return _client(os.getpid(), config, tuple(sorted(config.values().items())))


def part(answer: Mapping[str, Any], key: str, kind: type[T], where: str) -> T | None:
    """A part of the answer to a question; None if it is not given. Raises: StorageError if it is of another kind."""
    value = answer.get(key)
    if value is None or (isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)):
        return value
    # Not the value, which may be secret.
    raise unclear("GET", where, f"'{key}' in the answer is of type {type(value).__name__}")


def texts(answer: Mapping[str, Any], key: str, where: str) -> dict[str, str]:
    """A part with options, each as text. Raises: StorageError."""
    found = part(answer, key, dict, where) or {}
    return {name: str(value) for name, value in found.items() if value is not None}


def unclear(method: str, where: str, what: str) -> StorageError:
    """The error for an answer that does not say what it must: a change may have been made."""
    if method == "GET":
        return StorageError(f"{method} {where}: {what}")
    return OutcomeUnknownError(f"{method} {where}: {what}; it may or may not have been done")


def _json(response: httpx.Response) -> Any:
    """The JSON value of an answer; None if it is none."""
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None


def _error(response: httpx.Response, method: str, url: str) -> PaimonError:
    """The engine's error for an error response. A failed write with status 5xx has an unknown outcome."""
    found = _json(response)
    body = found if isinstance(found, dict) else {}
    status, resource, name = response.status_code, body.get("resourceType"), body.get("resourceName")
    about = " ".join(str(part) for part in (resource, name) if part)
    detail = body.get("message") or response.reason_phrase or "no reason given"
    message = f"{method} {url}: {status}{f' ({about})' if about else ''}: {detail}"
    match status:
        case 400 | 405 | 406:
            return InvalidArgumentError(message)
        case 401:
            return RestDeniedError(f"{message}; the server rejected the credentials of 'token.provider'")
        case 403:
            return RestDeniedError(f"{message}; the server does not permit this request")
        case 404 if found is None:
            return StorageError(f"{message}; a REST catalog answers with JSON: check 'uri', and what stands in between")
        case 404:
            return RestNotFoundError(message, resource)
        case 409:
            return ConflictError(message)
        case 501:
            return UnsupportedError(f"{message}; this server does not implement the request")
    if method == "GET" or status < 500:
        return StorageError(message)
    return OutcomeUnknownError(f"{message}; it may or may not have been done")
