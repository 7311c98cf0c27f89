"""A server that speaks OSS's, COS's and OBS's protocols, as far as they differ from S3's: moto, with what differs translated.

Run as a process of its own. It is asked as a proxy, so that clients use the addresses of the real services
(`http://lake.oss-cn-hangzhou.aliyuncs.com/…`). It has the buckets `lake`, `versions`, which keeps versions, and ignores
that an object must not be replaced, as the manual of OSS says of such buckets, and `twice`, whose listings have each
object twice, as those of gateways may. It notes requests on its output.

    python -m tests.support.cloud_server
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any
from urllib.parse import urlsplit

HEADERS = ("HTTP_X_OSS_FORBID_OVERWRITE", "HTTP_X_COS_FORBID_OVERWRITE")
BUCKETS = ("lake", "versions", "twice")
TAKEN = b"<Error><Code>FileAlreadyExists</Code><Message>The object you specified already exists</Message></Error>"


def main() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server
    from werkzeug.test import Client

    application = DomainDispatcherApplication(create_backend_app)

    def translated(environ: dict[str, Any], start_response: Any) -> Any:
        asked = urlsplit(environ["REQUEST_URI"])
        bucket = (asked.netloc or environ["HTTP_HOST"]).partition(".")[0]
        conditional = [name.removeprefix("HTTP_") for name in HEADERS if environ.get(name) == "true"]
        note = [environ["REQUEST_METHOD"], bucket, environ["PATH_INFO"], asked.query, *conditional]
        print(json.dumps(note), flush=True)
        if conditional and bucket != "versions":
            environ["HTTP_IF_NONE_MATCH"] = "*"
        query = f"?{asked.query}" if asked.query else ""
        environ["REQUEST_URI"] = environ["RAW_URI"] = f"/{bucket}{asked.path}{query}"
        environ["PATH_INFO"] = f"/{bucket}{environ['PATH_INFO']}"
        environ["HTTP_HOST"] = "127.0.0.1"
        environ["HTTP_AUTHORIZATION"] = "AWS test:test"
        is_taken = False

        def start(status: str, headers: list[tuple[str, str]], problem: Any = None) -> Any:
            nonlocal is_taken
            is_taken = status.startswith("412")
            if is_taken:
                return start_response("409 Conflict", [("Content-Length", str(len(TAKEN)))], problem)
            if is_repeated:
                headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
            return start_response(status, headers, problem)

        is_repeated = bucket == "twice" and "prefix=" in asked.query
        answer = application(environ, start)
        if is_repeated:
            return [re.sub(rb"(<Contents>.*?</Contents>)", rb"\1\1", b"".join(answer), flags=re.DOTALL)]
        return [TAKEN] if is_taken else answer

    client = Client(application)
    for bucket in BUCKETS:
        client.put(f"/{bucket}", headers={"Authorization": "AWS test:test", "Host": "127.0.0.1"})
    # One request at a time: moto looks and writes in two steps, so with threads it would not decide races.
    server = make_server("127.0.0.1", 0, translated, threaded=False)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    sys.stderr = open("/dev/null", "w")  # noqa: SIM115 - a line for each request
    main()
