"""The ASGI application: reviews in two lanes, all other paths in Flask.

A small review is answered in the event loop if its decision is cached or quickly made, else in one of a few threads.
Large ones share one thread, which pauses between them. Each lane has its own budget of bytes; bodies up to SMALL need
none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from podfit.evaluation.review import Webhook
from podfit.server import memory
from podfit.server.certs.serving import Application, Receive, Scope, Send
from podfit.server.reviews import LARGE, MAX_BODY, PATHS, HttpRefusal, Reviews, declared

ARRIVED = "podfit.arrived"  # key of a scope: when the request came (time.monotonic)
MAX_PAUSE = 2.0  # seconds between two large reviews, at most
SMALL = 32 << 10  # bytes of a body that every connection may send at any time: part of `memory.CONNECTION`


class Lanes:
    """Answers /validate and /mutate; `rest` answers everything else."""

    def __init__(self, reviews: Reviews, rest: Application, threads: int) -> None:
        """`threads`: number of threads for small reviews that the event loop does not answer; they start when
        needed."""
        self._reviews, self._rest = reviews, rest
        self._taken = {False: 0, True: 0}  # large → bytes of bodies of this lane that are here
        self._threads = {False: ThreadPoolExecutor(threads, "review"), True: ThreadPoolExecutor(1, "large-review")}
        self._rested = 0.0  # when the next large review may begin (time.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one ASGI request in the lane of its size."""
        webhook = PATHS.get(scope["path"])
        if webhook is None:
            await self._rest(scope, receive, send)
            return
        try:
            code, answer = 200, await self._answer(webhook, scope, receive)
        except EOFError:  # the peer is gone
            return
        except Exception as error:
            code, answer = self._reviews.failed(scope["path"], error)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _answer(self, webhook: Webhook, scope: Scope, receive: Receive) -> bytes:
        """The answer: in the event loop, or by a thread of its lane. Raises HttpRefusal if the request must not be
        answered or the lane is full, EOFError if the peer goes.

        Room for a large body is taken before it comes, so that some arrive entirely. For others it is taken as they
        come: a peer that sends nothing takes none."""
        length = declared(scope["method"], dict(scope["headers"]))
        large = length > LARGE
        taken = self._take(large, length if large else 0)
        try:
            arrived = scope.get(ARRIVED) or time.monotonic()
            query = scope["query_string"].decode("latin-1")
            parts, size = list[bytes](), 0
            async for part in _parts(receive):
                parts.append(part)
                size += len(part)
                if size > MAX_BODY:  # of a chunked body, or a longer one than declared
                    raise HttpRefusal.too_large()
                if size > SMALL and not large:
                    taken += self._take(large, size - taken)
            body = b"".join(parts)
            parts.clear()  # the parts would take as much memory again
            loop = asyncio.get_running_loop()
            if large:
                return await loop.run_in_executor(
                    self._threads[large], self._answer_large, webhook, body, query, arrived
                )
            answer = self._reviews.at_once(webhook, body, query, arrived)
            if answer is not None:
                return answer
            return await loop.run_in_executor(self._threads[large], self._reviews.answer, webhook, body, query, arrived)
        finally:
            self._taken[large] -= taken

    def _answer_large(self, webhook: Webhook, body: bytes, query: str, arrived: float) -> bytes:
        """The answer, after a pause as long as the review before it took, and at most MAX_PAUSE seconds.

        Python decodes a body without a break for other threads. A new connection needs the event loop five times until
        its answer is sent, and without a pause it waits for as many large bodies."""
        begun = time.monotonic()
        pause = max(0.0, self._rested - begun)
        time.sleep(pause)
        begun += pause
        try:
            return self._reviews.answer(webhook, body, query, arrived)
        finally:
            end = time.monotonic()
            self._rested = end + min(end - begun, MAX_PAUSE)

    def _take(self, large: bool, size: int) -> int:
        """Takes room for `size` bytes of the lane for large or small bodies, and returns `size`; raises HttpRefusal
        (503) if it has no such room."""
        budget = memory.shares().bodies[large]
        if self._taken[large] + size > budget:
            raise HttpRefusal(503, f"more than {budget >> 20} MiB of such reviews at once")
        self._taken[large] += size
        return size


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    """The parts of the body as they come; raises EOFError if the peer goes."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise EOFError
        yield message.get("body", b"")
        more = message.get("more_body", False)
