"""Clients that do not behave, and the reviews of one that does meanwhile: none is lost or late, memory is bounded.

Each attack runs again and again in a process of its own. The client that behaves sends reviews over a kept connection,
and every tenth over a new one.

python -m benchmarks.attacks [SECONDS [ATTACK…]]
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.serving import HOST, Server, certificates, load, pod, podfit, review
from tests.server import hostile

SECONDS = 8.0
PAUSE = 2.0
"""Seconds for which the connections of an attack stay open."""
SLOWEST = 0.25
SLOWEST_LARGE = 0.5
"""Seconds of a review, meanwhile; the second for bodies of 8 MiB."""
MEMORY = 512.0
"""MiB of all processes: the chart's `resources.limits.memory`."""
BODY = review(pod(0), "attack")
ATTACKS: dict[str, partial[Any]] = {
    "idle": partial(hostile.idle, number=1100),
    "half-open": partial(hostile.half_open, number=500),
    "slow headers": partial(hostile.slow_headers, number=200),
    "slow bodies": partial(hostile.slow_bodies, number=200),
    "unread": partial(hostile.unread, number=50, body=BODY),
    "odd lengths": partial(hostile.odd_lengths, number=33),
    "odd chunks": partial(hostile.odd_chunks, number=24),
    "pipelined": partial(hostile.pipelined, number=20, body=BODY),
    "resets": partial(hostile.resets, number=200, body=BODY),
    "full bodies": partial(hostile.full_bodies, number=1000),
    "large bodies": partial(hostile.large_bodies, number=40),
}


class Client:
    """One that behaves, and connects again after an answer with `Connection: close`."""

    def __init__(self, port: int) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.connection = http.client.HTTPSConnection(HOST, port, timeout=10, context=context)

    def ask(self, number: int) -> str | None:
        """What is wrong with the answer."""
        uid = f"good-{number}"
        try:
            body, headers = review(pod(number), uid), {"Content-Type": "application/json"}
            self.connection.request("POST", "/validate?timeout=10s", body, headers)
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            return repr(error)
        if answer.status != 200:
            return f"HTTP {answer.status}"
        return None if json.loads(text)["response"]["uid"] == uid else "the answer of another review"


def repeat(attack: partial[Any], port: int, begun: Any) -> None:
    """Attacks until this process is killed; `begun`: an event of multiprocessing."""
    os.nice(5)
    begun.set()
    while True:
        with ExitStack() as stack, suppress(OSError):
            for connection in attack(port):
                stack.enter_context(connection)
            time.sleep(PAUSE)


@contextmanager
def under(attack: partial[Any], port: int) -> Iterator[None]:
    """An attack in a process of its own."""
    context = get_context("spawn")
    begun = context.Event()
    process = context.Process(target=repeat, args=(attack, port, begun), daemon=True)
    process.start()
    begun.wait()
    try:
        yield
    finally:
        process.kill()
        process.join()


def measured(server: Server, seconds: float) -> tuple[list[float], list[str], float]:
    """Seconds of each review, what was wrong with some, and the largest memory in MiB."""
    took, wrong, memory = list[float](), list[str](), 0.0
    kept, end, numbers = Client(server.port), time.monotonic() + seconds, count()
    while time.monotonic() < end:
        number = next(numbers)
        client = kept if number % 10 else Client(server.port)
        begun = time.perf_counter()
        if problem := client.ask(number):
            wrong.append(problem)
        took.append(time.perf_counter() - begun)
        if client is not kept:
            client.connection.close()
        memory = max(memory, server.memory())
        time.sleep(0.01)
    kept.connection.close()
    return took, wrong, memory


def main(argv: Sequence[str]) -> int:
    """Exit 1 if a review was lost or late, or if memory exceeded the chart's limit."""
    seconds = float(argv[0]) if argv else SECONDS
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        certificates(Path(name))
        with podfit(Path(name)) as server:
            for attack in argv[1:] or ("none", *ATTACKS):
                with ExitStack() as stack:
                    if attack != "none":
                        stack.enter_context(under(ATTACKS[attack], server.port))
                    took, wrong, memory = measured(server, seconds)
                slowest, limit = max(took), SLOWEST_LARGE if attack == "large bodies" else SLOWEST
                good = not wrong and slowest <= limit and memory <= MEMORY
                failed += not good
                lost = f"{len(wrong)} lost" + (f" ({wrong[0]})" if wrong else "")
                late = f"slowest {slowest * 1000:.0f} ms (goal {limit * 1000:.0f})"
                used = f"{memory:.0f} MiB (limit {MEMORY:.0f})"
                print(f"{'' if good else 'MISSED '}{attack}: {len(took)} reviews, {lost}, {late}, {used}; {load()}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
