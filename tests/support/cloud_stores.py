"""The server of `cloud_server`, as clients of OSS, COS and OBS reach it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Final

import httpx
import pytest

from paimon_engine.storage import storage_for

_STOP_TIMEOUT_S: Final = 30
_NOTE_TIMEOUT_S: Final = 60
_PROXY: Final = ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY")


@dataclass(frozen=True)
class CloudServer:
    """`proxy` leads to it; `options` by scheme."""

    proxy: str
    options: Mapping[str, dict[str, str]]
    notes: SimpleQueue[list[Any]] = field(default_factory=SimpleQueue)
    _taken: list[list[Any]] = field(default_factory=list)

    @property
    def requests(self) -> list[list[Any]]:
        """Method, bucket, path, query and condition of each request so far, in order.

        Notes come through a pipe, later than answers. So a last request is made here, and its note waited for.
        """
        last = f"/{uuid.uuid4()}"
        httpx.get(f"{self.proxy}{last}", trust_env=False)
        while (note := self.notes.get(timeout=_NOTE_TIMEOUT_S))[2] != last:
            self._taken.append(note)
        return list(self._taken)


_OPTIONS: Final = {
    "oss": {
        "fs.oss.endpoint": "http://oss-cn-hangzhou.aliyuncs.com",
        "fs.oss.accessKeyId": "id",
        "fs.oss.accessKeySecret": "oss-secret",
    },
    "cosn": {
        "fs.cosn.bucket.endpoint_suffix": "http://cos.ap-beijing.myqcloud.com",
        "fs.cosn.userinfo.secretId": "id",
        "fs.cosn.userinfo.secretKey": "cos-secret",
    },
    "obs": {
        "fs.obs.endpoint": "http://obs.cn-north-4.myhuaweicloud.com",
        "fs.obs.access.key": "id",
        "fs.obs.secret.key": "obs-secret",
    },
}


def start_cloud_server() -> Iterator[CloudServer]:
    """Starts the server, as the proxy of this process's OpenDAL."""
    pytest.importorskip("opendal", reason="opendal is not installed: pip install opendal")
    pytest.importorskip("moto.server", reason='the S3 test server is not installed: pip install "moto[server]"')
    command = [sys.executable, "-m", "tests.support.cloud_server"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    output = process.stdout
    server = CloudServer(f"http://127.0.0.1:{int(output.readline())}", _OPTIONS)

    def read_notes() -> None:
        for line in output:
            server.notes.put(json.loads(line))

    reader = threading.Thread(target=read_notes, daemon=True)
    reader.start()
    try:
        _use_proxy(server.proxy)
        yield server
    finally:
        process.terminate()
        process.wait(_STOP_TIMEOUT_S)
        reader.join(_STOP_TIMEOUT_S)
        output.close()


def _use_proxy(address: str) -> None:
    """OpenDAL's one client of HTTP reads the environment when it is made: at the first request of the process."""
    before = {name: os.environ.pop(name, None) for name in _PROXY}
    os.environ["http_proxy"] = address
    try:
        assert not storage_for("oss://lake/x", _OPTIONS["oss"]).exists("oss://lake/nothing")
    finally:
        os.environ.pop("http_proxy")
        os.environ.update({name: value for name, value in before.items() if value is not None})
