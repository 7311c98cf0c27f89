"""Authentication to a REST catalog: by a bearer token, or by Alibaba Cloud's DLF request signature.

DLF signs each request: an HMAC over method, path, parameters and some headers. The signing algorithm `default` derives
its key from secret, day, region and service; `openapi`, used by endpoints with `dlfnext` in their address, uses the
secret itself. Keys come from the catalog's options or from a local file that another process renews; Java's other key
loaders are not supported.

Source: `BearTokenAuthProvider`, `DLFAuthProvider`, `DLFDefaultSigner`, `DLFOpenApiSigner`, `DLFLocalFileTokenLoader` of
the Java library.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote_plus

import tenacity

from paimon_engine.env import new_id
from paimon_engine.errors import InvalidArgumentError, StorageError, UnsupportedError

_PROVIDERS: Final = ("bear", "dlf")
_DLF_ALGORITHMS: Final = ("default", "openapi")
_FILE_LOADER: Final = "local_file"
_JSON: Final = "application/json"
_PROTOCOL: Final = re.compile("^https?://")
_ALGORITHM: Final = "DLF4-HMAC-SHA256"
_PRODUCT: Final = "DlfNext"
_REQUEST_TYPE: Final = "aliyun_v4_request"
_UNSIGNED: Final = "UNSIGNED-PAYLOAD"
_SIGNED_HEADERS: Final = frozenset(
    {"content-md5", "content-type", "x-dlf-content-sha256", "x-dlf-date", "x-dlf-version", "x-dlf-security-token"}
)
_REGION: Final = re.compile(r"(?:pre-)?([a-z]+-[a-z]+(?:-\d+)?)")
_WHILE_WRITTEN: Final = tenacity.Retrying(
    stop=tenacity.stop_after_attempt(5),
    wait=tenacity.wait_exponential(multiplier=0.05),
    retry=tenacity.retry_if_exception_type(StorageError),
    reraise=True,
)
"""A file of keys is read again for 0.75 seconds, since it may just be written."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a signature covers; `path` is as sent, parameters are not yet encoded, `body` is text."""

    method: str
    path: str
    parameters: Mapping[str, str]
    body: str | None


class Auth(Protocol):
    """Headers that authenticate a request; computed again for each attempt, as signatures contain the time."""

    def headers(self, request: Request, now_ms: int) -> dict[str, str]:
        """Headers to add. Raises: StorageError if a key file cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class NoAuth:
    """For servers that need no authentication."""

    def headers(self, _request: Request, _now_ms: int) -> dict[str, str]:
        return {}


@dataclass(frozen=True, slots=True)
class BearerAuth:
    """The same bearer token for all requests."""

    token: str = field(repr=False)

    def headers(self, _request: Request, _now_ms: int) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@dataclass(frozen=True, slots=True)
class DlfKeys:
    """An access key, with its token if it is a temporary one."""

    access_key_id: str
    access_key_secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class KeySource:
    """Fixed keys, or the path of a JSON file that is read again for each request, as its keys expire."""

    keys: DlfKeys | None = None
    file: str | None = None

    def current(self) -> DlfKeys:
        """The keys that are valid now. Raises: StorageError if the file cannot be read."""
        return self.keys if self.keys is not None else _WHILE_WRITTEN(_keys_of_file, str(self.file))


@dataclass(frozen=True, slots=True)
class DlfAuth:
    """DLF's signing algorithm `default`."""

    region: str
    source: KeySource

    def headers(self, request: Request, now_ms: int) -> dict[str, str]:
        keys = self.source.current()
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        headers = {
            "x-dlf-date": now.strftime("%Y%m%dT%H%M%SZ"),
            "x-dlf-content-sha256": _UNSIGNED,
            "x-dlf-version": "v1",
        }
        if request.body:
            headers |= _body_headers(request.body)
        if keys.security_token is not None:
            headers["x-dlf-security-token"] = keys.security_token
        return {**headers, "Authorization": self._authorization(request, headers, keys, now)}

    def _authorization(self, request: Request, headers: Mapping[str, str], keys: DlfKeys, now: datetime) -> str:
        day = now.strftime("%Y%m%d")
        scope = f"{day}/{self.region}/{_PRODUCT}/{_REQUEST_TYPE}"
        signed = "\n".join([_ALGORITHM, headers["x-dlf-date"], scope, _sha256(_canonical(request, headers))])
        key = f"aliyun_v4{keys.access_key_secret}".encode()
        for part in (day, self.region, _PRODUCT, _REQUEST_TYPE):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, signed.encode(), "sha256").hex()
        return f"{_ALGORITHM} Credential={keys.access_key_id}/{scope},Signature={signature}"


@dataclass(frozen=True, slots=True)
class DlfOpenApiAuth:
    """DLF's signing algorithm `openapi`, for public endpoints. `nonce` must differ for each request."""

    host: str
    source: KeySource
    nonce: Callable[[], str] = new_id

    def headers(self, request: Request, now_ms: int) -> dict[str, str]:
        keys = self.source.current()
        headers = {
            "Date": formatdate(now_ms // 1000, usegmt=True),
            "Accept": _JSON,
            "Host": self.host,
            "x-acs-signature-method": "HMAC-SHA1",
            "x-acs-signature-nonce": self.nonce(),
            "x-acs-signature-version": "1.0",
            "x-acs-version": "2026-01-18",
        }
        if request.body:
            headers |= _body_headers(request.body)
        if keys.security_token is not None:
            headers["x-acs-security-token"] = keys.security_token
        digest = hmac.digest(keys.access_key_secret.encode(), _openapi_text(request, headers).encode(), "sha1")
        return {**headers, "Authorization": f"acs {keys.access_key_id}:{base64.b64encode(digest).decode()}"}


def _body_headers(body: str) -> dict[str, str]:
    digest = hashlib.md5(body.encode(), usedforsecurity=False).digest()
    return {"Content-Type": _JSON, "Content-MD5": base64.b64encode(digest).decode()}


def _openapi_text(request: Request, headers: Mapping[str, str]) -> str:
    """The text that `openapi` signs, with path and parameters as they are before URL encoding."""
    parameters = "&".join(f"{name}={value}" if value else name for name, value in sorted(request.parameters.items()))
    resource = unquote_plus(request.path) + (f"?{parameters}" if parameters else "")
    own = [f"{name}:{value.strip()}" for name, value in sorted(headers.items()) if name.startswith("x-acs-")]
    plain = [headers.get(name, "") for name in ("Accept", "Content-MD5", "Content-Type", "Date")]
    return "\n".join([request.method, *plain, *own, resource])


def auth_of(options: Mapping[str, str]) -> Auth:
    """The authentication that a catalog's options choose by `token.provider`.

    Raises: InvalidArgumentError if an option is missing; UnsupportedError for an unknown provider or algorithm.
    """
    provider = options.get("token.provider")
    if provider is None:
        if "token" in options:
            raise InvalidArgumentError("a REST catalog with a 'token' needs 'token.provider' = 'bear'")
        return NoAuth()
    if provider == "bear":
        if not options.get("token"):
            raise InvalidArgumentError("'token.provider' = 'bear' needs the option 'token'")
        return BearerAuth(options["token"])
    if provider == "dlf":
        return _dlf(options)
    raise UnsupportedError(f"'token.provider' = '{provider}' is not supported; these are: {', '.join(_PROVIDERS)}")


def _dlf(options: Mapping[str, str]) -> DlfAuth | DlfOpenApiAuth:
    """Authentication by Alibaba's DLF: by its own signature, or by that of its OpenAPI, as URIs of DlfNext need.

    Without `dlf.region` the region is taken from the URI.

    Raises: UnsupportedError for another algorithm; InvalidArgumentError without a region.
    """
    uri = options.get("uri", "")
    algorithm = options.get("dlf.signing-algorithm", "openapi" if "dlfnext" in uri.lower() else "default")
    if algorithm not in _DLF_ALGORITHMS:
        raise UnsupportedError(
            f"'dlf.signing-algorithm' = '{algorithm}' is not supported; these are: {', '.join(_DLF_ALGORITHMS)}"
        )
    source = _dlf_keys(options)
    if algorithm == "openapi":
        return DlfOpenApiAuth(_PROTOCOL.sub("", uri).partition("/")[0], source)
    region = options.get("dlf.region")
    if region is None:
        found = _REGION.search(uri)
        if found is None:
            raise InvalidArgumentError("'token.provider' = 'dlf' needs the option 'dlf.region'")
        region = found[1]
    return DlfAuth(region, source)


def _dlf_keys(options: Mapping[str, str]) -> KeySource:
    loader = options.get("dlf.token-loader", _FILE_LOADER)
    if loader != _FILE_LOADER:
        raise UnsupportedError(f"'dlf.token-loader' = '{loader}' is not supported; use '{_FILE_LOADER}', or fixed keys")
    if "dlf.token-path" in options:
        return KeySource(file=options["dlf.token-path"])
    missing = [key for key in ("dlf.access-key-id", "dlf.access-key-secret") if key not in options]
    if missing:
        raise InvalidArgumentError(f"'token.provider' = 'dlf' needs '{missing[0]}', or 'dlf.token-path'")
    token = options.get("dlf.security-token")
    return KeySource(DlfKeys(options["dlf.access-key-id"], options["dlf.access-key-secret"], token))


def _keys_of_file(path: str) -> DlfKeys:
    """The keys in a file. Raises: StorageError, also for one that is just being written."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        return DlfKeys(found["AccessKeyId"], found["AccessKeySecret"], found.get("SecurityToken"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        # Not `from error`: the message of the JSON parser may quote the keys.
        raise StorageError(
            f"the file of 'dlf.token-path', {path}, contains no valid keys ({type(error).__name__}); it must be a JSON "
            "object with AccessKeyId and AccessKeySecret"
        ) from None


def _canonical(request: Request, headers: Mapping[str, str]) -> str:
    """The text that `default` signs: one line each for method, path, parameters, signed headers and payload."""
    parameters = "&".join(
        f"{name.strip()}={value.strip()}" if value else name.strip()
        for name, value in sorted(request.parameters.items())
    )
    named = {name.lower(): value.strip() for name, value in headers.items()}
    lines = [f"{name}:{value}" for name, value in sorted(named.items()) if name in _SIGNED_HEADERS]
    return "\n".join([request.method, request.path, parameters, *lines, _UNSIGNED])


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
