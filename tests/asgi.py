"""A client of an ASGI application in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from json import dumps, loads
from typing import Any

from podfit.server import deadline, reviews
from podfit.server.certs.serving import Application, Scope

reviews.HERE = deadline.JUDGING
"""hypothesis has a callback for garbage collections; the exception of a deadline would be lost in it."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status_code: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def text(self) -> str:
        """The body."""
        return self.data.decode()

    @property
    def mimetype(self) -> str:
        """Of the body."""
        return self.headers["content-type"].partition(";")[0]

    def get_json(self) -> Any:
        """The body, read."""
        return loads(self.data)


class Client:
    """Asks one request after the other."""

    def __init__(self, app: Application) -> None:
        self.app = app

    def get(self, url: str) -> Answer:
        """GET."""
        return self.open("GET", url)

    def post(
        self,
        url: str,
        data: bytes = b"",
        json: Any = None,
        content_type: str | None = "application/json",
        headers: Mapping[str, str] | None = None,
        scope: Scope | None = None,
    ) -> Answer:
        """POST of a body in one piece, with its length; `json`: of an object. `scope`: what the server adds."""
        data = dumps(json).encode() if json is not None else data
        said = {"content-length": str(len(data)), **(headers or {})}
        if content_type is not None:
            said["content-type"] = content_type
        return self.open("POST", url, said, [data], scope)

    def open(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        pieces: Iterable[bytes] = (b"",),
        scope: Scope | None = None,
    ) -> Answer:
        """Any request; without a content-length its body is chunked."""
        return asyncio.run(self._open(method, url, headers or {}, [*pieces], scope or {}))

    async def _open(
        self, method: str, url: str, headers: Mapping[str, str], pieces: list[bytes], scope: Scope
    ) -> Answer:
        path, _, query = url.partition("?")
        sent: list[Scope] = []
        gone = asyncio.Event()

        async def receive() -> Scope:
            if not pieces:
                await gone.wait()
            return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

        async def send(message: Scope) -> None:
            sent.append(message)

        asked = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "https",
            "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1), "server": ("localhost", 443), **scope,
        }  # fmt: skip
        await self.app(asked, receive, send)
        start, *bodies = sent
        told = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], told, b"".join(one.get("body", b"") for one in bodies))
