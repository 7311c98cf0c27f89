"""Proofs of identity for REST catalogs, compared with what pypaimon's client sends."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from paimon_engine.catalogs.rest_auth import DlfAuth, DlfKeys, Request, auth_of
from paimon_engine.errors import StorageError, UnsupportedError
from tests.support.pypaimon import PyPaimon

NOW = datetime(2023, 12, 3, 12, 12, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
KEYS = ["access-key-id", "access-key-secret", "securityToken"]


def test_a_signature_is_that_of_java():
    """The example of `DLFAuthSignatureTest`."""
    request = Request(
        "POST", "/v1/paimon/databases", {"k1": "v1", "k2": "v2"}, '{"name":"database","options":{"a":"b"}}'
    )

    headers = DlfAuth("cn-hangzhou", DlfKeys(*KEYS)).headers(request, NOW_MS)

    assert headers["Authorization"] == (
        "DLF4-HMAC-SHA256 Credential=access-key-id/20231203/cn-hangzhou/DlfNext/aliyun_v4_request,"
        "Signature=c72caf1d40b55b1905d891ee3e3de48a2f8bebefa7e39e4f277acc93c269c5e3"
    )


@pytest.mark.parametrize(
    ("request_", "keys"),
    [
        (Request("GET", "/v1/lake/databases", {}, None), KEYS),
        (Request("GET", "/v1/lake/databases", {"pageToken": "b", "maxResults": "2", "empty": ""}, None), KEYS),
        (Request("POST", "/v1/lake/tables/rename", {}, '{"ä": "ö"}'), KEYS),
        (Request("DELETE", "/v1/lake/databases/db/tables/t%24branch_b", {}, None), [*KEYS[:2], None]),
    ],
)
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

    assert DlfAuth("cn-beijing", DlfKeys(*keys)).headers(request_, NOW_MS) == theirs


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
    with pytest.raises(StorageError, match="no keys in the file of 'dlf.token-path'") as raised:
        auth.headers(request, NOW_MS)
    assert "geheim" not in repr(raised.value) + repr(raised.value.__context__.args)


def test_keys_are_not_shown():
    given = {"dlf.region": "cn-x", "dlf.access-key-id": "me", "dlf.access-key-secret": "geheim"}
    dlf = auth_of({"token.provider": "dlf", **given, "dlf.security-token": "auch-geheim"})

    assert "geheim" not in repr((dlf, auth_of({"token.provider": "bear", "token": "geheim"})))


def test_an_endpoint_with_another_algorithm_is_refused():
    with pytest.raises(UnsupportedError, match="'openapi' is not supported"):
        auth_of({"token.provider": "dlf", "uri": "https://dlfnext.cn-hangzhou.aliyuncs.com"})
