"""Who we are to a REST catalog: a bearer token, or Alibaba Cloud's DLF signature.

DLF signs each request: a digest of method, path, parameters and some headers, keyed by secret, day, region and
service. Keys come from options or from a file that somebody renews. Its other algorithm, `openapi`, and its loaders
of keys are not supported.

Source: `BearTokenAuthProvider`, `DLFAuthProvider`, `DLFDefaultSigner`, `DLFLocalFileTokenLoader` of the Java library.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from paimon_engine.errors import InvalidArgumentError, StorageError, UnsupportedError

_PROVIDERS: Final = ("bear", "dlf")
_ALGORITHM: Final = "DLF4-HMAC-SHA256"
_PRODUCT: Final = "DlfNext"
_REQUEST_TYPE: Final = "aliyun_v4_request"
_UNSIGNED: Final = "UNSIGNED-PAYLOAD"
_SIGNED_HEADERS: Final = frozenset(
    {"content-md5", "content-type", "x-dlf-content-sha256", "x-dlf-date", "x-dlf-version", "x-dlf-security-token"}
)
_REGION: Final = re.compile(r"(?:pre-)?([a-z]+-[a-z]+(?:-\d+)?)")


@dataclass(frozen=True, slots=True)
class Request:
    """What a signature covers; `path` is as sent, parameters are not yet encoded, `body` is text."""

    method: str
    path: str
    parameters: Mapping[str, str]
    body: str | None


class Auth(Protocol):
    """Gives a request the headers that prove who sends it; called anew for each attempt."""

    def headers(self, request: Request, now_ms: int) -> dict[str, str]:
        """Headers to add. Raises: StorageError if a key file cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class NoAuth:
    """For servers that ask nobody who they are."""

    def headers(self, _request: Request, _now_ms: int) -> dict[str, str]:
        return {}


@dataclass(frozen=True, slots=True)
class BearerAuth:
    """One token for all requests."""

    token: str = field(repr=False)

    def headers(self, _request: Request, _now_ms: int) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@dataclass(frozen=True, slots=True)
class DlfKeys:
    """An access key, with the token that goes with it if it is a temporary one."""

    access_key_id: str
    access_key_secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DlfAuth:
    """DLF's default signature with fixed keys, or with those that `key_file` holds at the time."""

    region: str
    keys: DlfKeys | None = None
    key_file: str | None = None

    def headers(self, request: Request, now_ms: int) -> dict[str, str]:
        keys = self.keys if self.keys is not None else _keys_of_file(str(self.key_file))
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        headers = {
            "x-dlf-date": now.strftime("%Y%m%dT%H%M%SZ"),
            "x-dlf-content-sha256": _UNSIGNED,
            "x-dlf-version": "v1",
        }
        if request.body:
            headers["Content-Type"] = "application/json"
            digest = hashlib.md5(request.body.encode(), usedforsecurity=False).digest()
            headers["Content-MD5"] = base64.b64encode(digest).decode()
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


def auth_of(options: Mapping[str, str]) -> Auth:
    """The proof that a catalog's options ask for.

    Raises: InvalidArgumentError if something is missing; UnsupportedError for what is not supported.
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


def _dlf(options: Mapping[str, str]) -> DlfAuth:
    uri = options.get("uri", "")
    algorithm = options.get("dlf.signing-algorithm", "openapi" if "dlfnext" in uri.lower() else "default")
    if algorithm != "default":
        raise UnsupportedError(
            f"'dlf.signing-algorithm' = '{algorithm}' is not supported; use an endpoint for 'default'"
        )
    region = options.get("dlf.region")
    if region is None:
        found = _REGION.search(uri)
        if found is None:
            raise InvalidArgumentError("'token.provider' = 'dlf' needs the option 'dlf.region'")
        region = found[1]
    if "dlf.token-path" in options:
        return DlfAuth(region, key_file=options["dlf.token-path"])
    missing = [key for key in ("dlf.access-key-id", "dlf.access-key-secret") if key not in options]
    if missing:
        raise InvalidArgumentError(f"'token.provider' = 'dlf' needs '{missing[0]}', or 'dlf.token-path'")
    security_token = options.get("dlf.security-token")
    return DlfAuth(region, DlfKeys(options["dlf.access-key-id"], options["dlf.access-key-secret"], security_token))


def _keys_of_file(path: str) -> DlfKeys:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        return DlfKeys(found["AccessKeyId"], found["AccessKeySecret"], found.get("SecurityToken"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        # Not `from error`: what a parser complains of may quote the keys.
        raise StorageError(f"no keys in the file of 'dlf.token-path', {path}: {type(error).__name__}") from None


def _canonical(request: Request, headers: Mapping[str, str]) -> str:
    parameters = "&".join(
        f"{name.strip()}={value.strip()}" if value else name.strip()
        for name, value in sorted(request.parameters.items())
    )
    named = {name.lower(): value.strip() for name, value in headers.items()}
    lines = [f"{name}:{value}" for name, value in sorted(named.items()) if name in _SIGNED_HEADERS]
    return "\n".join([request.method, request.path, parameters, *lines, _UNSIGNED])


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
