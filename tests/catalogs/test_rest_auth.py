"""Proofs of identity for REST catalogs, compared with what pypaimon's client sends."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from paimon_engine.errors import StorageError, UnsupportedError
from paimon_engine.metastores.rest_auth import DlfAuth, DlfKeys, DlfOpenApiAuth, KeySource, Request, auth_of
from tests.support.pypaimon import PyPaimon

NOW = datetime(2023, 12, 3, 12, 12, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
KEYS = ["access-key-id", "access-key-secret", "securityToken"]


def test_a_signature_is_that_of_java():
    """The example of `DLFAuthSignatureTest`."""
    request = Request(
        "POST", "/v1/paimon/databases", {"k1": "v1", "k2": "v2"}, '{"name":"database","options":{"a":"b"}}'
    )

    headers = DlfAuth("cn-hangzhou", KeySource(DlfKeys(*KEYS))).headers(request, NOW_MS)

    assert headers["Authorization"] == (
        "DLF4-HMAC-SHA256 Credential=access-key-id/20231203/cn-hangzhou/DlfNext/aliyun_v4_request,"
        "Signature=c72caf1d40b55b1905d891ee3e3de48a2f8bebefa7e39e4f277acc93c269c5e3"
    )


REQUESTS = [
    (Request("GET", "/v1/lake/databases", {}, None), KEYS),
    (Request("GET", "/v1/lake/databases", {"pageToken": "b", "maxResults": "2", "empty": ""}, None), KEYS),
    (Request("POST", "/v1/lake/tables/rename", {}, '{"ä": "ö"}'), KEYS),
    (Request("DELETE", "/v1/lake/databases/db/tables/t%24branch_b", {}, None), [*KEYS[:2], None]),
]


@pytest.mark.parametrize(("request_", "keys"), REQUESTS)
def test_signatures_are_those_of_pypaimon(request_: Request, keys: list, pypaimon: PyPaimon):
    theirs = pypaimon.dlf_headers(
        method=request_.method,
        resource=request_.path,
        parameters=request_.parameters,
        body=request_.body,
        region="cn-beijing",
        keys=keys,
        now=NOW.isoformat(),
    )

    assert DlfAuth("cn-beijing", KeySource(DlfKeys(*keys))).headers(request_, NOW_MS) == theirs


@pytest.mark.parametrize(("request_", "keys"), REQUESTS)
def test_open_signatures_are_those_of_pypaimon(request_: Request, keys: list, pypaimon: PyPaimon):
    uri = "https://dlfnext.cn-beijing.aliyuncs.com:8080/some/path"
    theirs = pypaimon.dlf_headers(
        method=request_.method,
        resource=request_.path,
        parameters=request_.parameters,
        body=request_.body,
        region=None,
        host="dlfnext.cn-beijing.aliyuncs.com:8080",
        keys=keys,
        now=NOW.isoformat(),
    )
    given = {"dlf.access-key-id": keys[0], "dlf.access-key-secret": keys[1]}
    given |= {} if keys[2] is None else {"dlf.security-token": keys[2]}
    auth = auth_of({"token.provider": "dlf", "uri": uri, **given})

    assert isinstance(auth, DlfOpenApiAuth)
    nonce = theirs["x-acs-signature-nonce"]
    assert replace(auth, nonce=lambda: nonce).headers(request_, NOW_MS) == theirs
    first, second = (auth.headers(request_, NOW_MS)["x-acs-signature-nonce"] for _ in range(2))
    assert first != second


def test_keys_of_a_file_are_read_anew_for_each_request(tmp_path: Path):
    file = tmp_path / "keys.json"
    auth = auth_of({"token.provider": "dlf", "uri": "http://dlf.cn-hangzhou.x", "dlf.token-path": str(file)})
    request = Request("GET", "/v1/config", {}, None)
    seen = []
    for name in ("first", "second"):
        file.write_text(
            json.dumps({"AccessKeyId": name, "AccessKeySecret": "geheim", "Expiration": "2030-01-01T00:00:00Z"})
        )
        seen.append(auth.headers(request, NOW_MS)["Authorization"].split("=")[1].split("/")[:3])

    assert seen == [["first", "20231203", "cn-hangzhou"], ["second", "20231203", "cn-hangzhou"]]
    file.write_text('{"AccessKeyId": "geheim"')
    with pytest.raises(StorageError, match="the file of 'dlf.token-path'.* contains no valid keys") as raised:
        auth.headers(request, NOW_MS)
    assert "geheim" not in repr(raised.value) + repr(raised.value.__context__.args)


def test_a_file_that_is_just_being_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file, real = tmp_path / "keys.json", Path.read_text
    text = json.dumps({"AccessKeyId": "whole", "AccessKeySecret": "geheim"})
    file.write_text(text[:20])

    def read_before_it_is_whole(path: Path, **more: str) -> str:
        found = real(path, **more)
        file.write_text(text)
        return found

    monkeypatch.setattr(Path, "read_text", read_before_it_is_whole)
    auth = auth_of({"token.provider": "dlf", "uri": "http://dlf.cn-hangzhou.x", "dlf.token-path": str(file)})

    assert "Credential=whole/" in auth.headers(Request("GET", "/v1/config", {}, None), NOW_MS)["Authorization"]


def test_keys_are_not_shown():
    given = {"dlf.region": "cn-x", "dlf.access-key-id": "me", "dlf.access-key-secret": "geheim"}
    dlf = auth_of({"token.provider": "dlf", **given, "dlf.security-token": "auch-geheim"})

    assert "geheim" not in repr((dlf, auth_of({"token.provider": "bear", "token": "geheim"})))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dlf.signing-algorithm": "openapi-v4"}, "'openapi-v4' is not supported; these are: default, openapi"),
        ({"dlf.token-loader": "ecs"}, "'dlf.token-loader' = 'ecs' is not supported"),
    ],
)
def test_other_algorithms_and_loaders_are_refused(options: dict[str, str], message: str):
    given = {"uri": "http://dlf.cn-hangzhou.x", "dlf.access-key-id": "me", "dlf.access-key-secret": "geheim"}
    with pytest.raises(UnsupportedError, match=message):
        auth_of({"token.provider": "dlf", **given, **options})
