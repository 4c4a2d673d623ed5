"""Mutated reviews against the whole application: every one gets an answer, in time, and memory does not grow.

Guided by what the answers say: an object with a combination of rules, modes and warnings that was not seen before joins
those that are mutated further.

python -m benchmarks.fuzz [REVIEWS [SEED]]
"""

from __future__ import annotations

import io
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.mutations import JSONDict, corpus, mutated, pick, review
from podfit.evaluation.policy import builtin
from podfit.server.accesslog import MAX_NAME_LENGTH, AccessLog
from podfit.server.app import create_app
from podfit.server.metrics import Metrics
from podfit.vllm.facts import Facts
from tests import asgi

REVIEWS = 1_000_000
SLOW = 1.0
"""Seconds of a processor: an answer that takes longer is printed."""
POOL = 2_000
"""Objects that are kept to mutate further."""


@dataclass
class Seen:
    """What came back."""

    status: Counter[int] = field(default_factory=Counter)
    decision: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    """Bodies with an answer that must not be: 5xx, an error of ours, another uid, more than SLOW seconds."""
    pool: int = 0
    slowest: float = 0.0
    memory: list[int] = field(default_factory=list)
    """Bytes of this process after each tenth, without the objects that are mutated."""


class Said(AccessLog):
    """An access log of one line, the last, which no thread writes: to start one takes a third of a review."""

    last = ""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())

    def _write(self, fields: dict[str, object]) -> None:
        self.last = json.dumps(fields)


class Client:
    """The application, called in this process."""

    def __init__(self) -> None:
        self.access = Said()
        self.client = asgi.Client(create_app(builtin(), Facts(), Metrics("", "", ""), access=self.access))

    def post(self, path: str, body: bytes) -> tuple[int, JSONDict, JSONDict]:
        """Status, answer, and the line in the access log."""
        answer = self.client.post(f"{path}?timeout=10s", body)
        return answer.status_code, answer.get_json(), json.loads(self.access.last)


def held(pool: list[JSONDict]) -> int:
    """Bytes of the objects that are kept to mutate, which grow while they are mutated."""
    left: list[Any] = [pool]
    seen, found = set[int](), 0
    while left:
        one = left.pop()
        if id(one) not in seen:
            seen.add(id(one))
            found += sys.getsizeof(one)
            left += [*one, *one.values()] if isinstance(one, dict) else one if isinstance(one, list) else ()
    return found


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def run(count: int, seed: int) -> Seen:
    """Sends so many reviews."""
    random, client, seen = Random(seed), Client(), Seen()  # noqa: S311 - no secret
    pool, known = list(corpus()), set[int]()  # their hashes: the signatures grow to tens of MiB
    for number in range(count):
        before = pick(random, pool)
        obj = mutated(random, before)
        old = before if random.random() < 0.2 else None
        path = random.choice(("/validate", "/mutate"))
        whole = review(random, obj, old, uid=f"fuzz-{number}")
        if random.random() < 0.02:
            whole = mutated(random, whole, 2)
        body = json.dumps(whole).encode()
        if random.random() < 0.01:
            at = random.randrange(len(body))
            body = body[:at] + bytes([random.randrange(256)]) + body[at + random.randrange(3) :]
        begun = time.process_time()
        status, answer, line = client.post(path, body)
        took = time.process_time() - begun
        seen.slowest = max(seen.slowest, took)
        seen.status[status] += 1
        decision = str(line.get("decision", status))
        seen.decision[decision] += 1
        told = "response" in answer and answer["response"]["uid"][:MAX_NAME_LENGTH] == line.get("uid")
        if status not in (200, 400) or decision in ("failed", "late") or took > SLOW or (status == 200 and not told):
            seen.bad.append(f"{status} {decision} {took:.2f} s: {body.decode(errors='replace')[:4000]}")
            print(seen.bad[-1], flush=True)
        signature = hash((path, decision, line.get("rules"), line.get("error", "")[:40]))
        if signature not in known and status == 200:
            known.add(signature)
            pool.append(obj)
            if len(pool) > POOL:
                del pool[len(corpus())]
        if (number + 1) % max(1, count // 10) == 0:
            objects = held(pool)
            seen.memory.append(resident() - objects)
            memory = f"{seen.memory[-1] / 2**20:.0f} MiB beside {len(pool)} objects' {objects / 2**20:.0f}"
            print(f"{number + 1} reviews, {len(seen.bad)} wrong answers, {memory}", flush=True)
    seen.pool = len(pool) - len(corpus())
    return seen


class Errors(logging.Handler):
    """Counts what is logged as an error: a rule that raised."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """One record."""
        self.lines[" ".join(record.getMessage().split()[:4])] += 1


def main(argv: Sequence[str]) -> int:
    """Prints what came back; 1 where something must not have."""
    count, seed = int(argv[0]) if argv else REVIEWS, int(argv[1]) if len(argv) > 1 else 0
    errors = Errors()
    logging.getLogger("podfit").addHandler(errors)
    begun = time.monotonic()
    seen = run(count, seed)
    growth = (seen.memory[-1] - seen.memory[1]) / 2**20 if len(seen.memory) > 2 else 0.0
    print(f"{count} reviews in {time.monotonic() - begun:.0f} s: {dict(seen.status)}, {dict(seen.decision)}")
    print(
        f"{seen.pool} new combinations, slowest {seen.slowest:.2f} s, memory {growth:+.1f} MiB since the second tenth"
    )
    print(
        f"{len(seen.bad)} wrong answers, {sum(errors.lines.values())} errors logged {dict(errors.lines.most_common(5))}"
    )
    return bool(seen.bad or errors.lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
