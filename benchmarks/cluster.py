"""podfit behind a real API server (the one of `make e2e`), with failurePolicy Fail.

`latency`: what the API server measures of its webhooks at 100 reviews a second, and what podfit adds to an apply.
`restarts`: Pods are created while two replicas are restarted in turn, certificate and CA change, policies are reloaded.
`kill`: the same, and now and then a replica's worker gets SIGKILL.

python -m benchmarks.cluster [latency|restarts|kill [REVIEWS]]
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import os
import re
import signal
import ssl
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path
from typing import Any

from benchmarks.serving import free_port, load
from podfit.server import certs
from tests.conftest import GOOD_POD
from tests.e2e.controlplane import ADMIN, HOST, Cluster, running
from tests.e2e.process import kill, repeated, start
from tests.e2e.release import REGISTRATION, installed, make_namespace
from tests.reviews import deployment, doomed

JSONDict = dict[str, Any]
REVIEWS = 100_000
CHANGES = 100
"""Restarts, rotations and reloads meanwhile, at least."""
PROGRESS = 30.0
"""Seconds between two lines of progress."""
CALLERS = 4
"""Connections to the API server."""
LEAVING = 1.0
"""Seconds between a replica's last new connection and its SIGTERM (the chart's `preStopSeconds` is 5)."""
GOOD, BAD, LOST = "created as it should be", "refused as it should be", "failed"
WRONG = "answered wrongly"


class Balancer:
    """What a Service does: every new connection goes to one of the ready replicas, in turn."""

    def __init__(self) -> None:
        self.port = free_port()
        self.ready: list[int] = []
        self._turn = count()
        self._loop, self._end = asyncio.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()), daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Closes all connections."""
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        async with await asyncio.start_server(self._connection, HOST, self.port, backlog=1024):
            await self._end.wait()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, IndexError, asyncio.CancelledError), closing(writer):  # cancelled: at the end
            ready = list(self.ready)
            back, there = await asyncio.open_connection(HOST, ready[next(self._turn) % len(ready)])
            with closing(there):
                await asyncio.gather(self._pump(reader, there), self._pump(back, writer))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                sink.write(data)
                await sink.drain()
        with suppress(OSError):
            sink.close()


class Replicas:
    """Two servers that read the same files, behind the balancer."""

    def __init__(self, name: str, folder: Path) -> None:
        """`name`: of the release, and of the namespace that it evaluates."""
        self.name, self.folder, self.balancer = name, folder, Balancer()
        self.policy = folder / "policy.yaml"
        self.running: list[tuple[subprocess.Popen[bytes], int]] = []
        self._number = count()
        self.write_policy("warn")

    def write_policy(self, mode: str) -> None:
        """A change that changes nothing for the Pods that are created."""
        head = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: measured}\n"
        new = self.policy.with_suffix(".new")
        new.write_text(f"{head}spec: {{rules: {{single-replica: {{mode: {mode}}}}}}}\n")
        new.replace(self.policy)

    def add(self) -> None:
        """One more, which gets connections once it is ready."""
        port, log = free_port(), self.folder / f"replica-{next(self._number)}.log"
        command = [sys.executable, "-m", "podfit.cli", "serve", f"--bind={HOST}:{port}", f"--policy={self.policy}"]
        command += [f"--cert={self.folder}/tls.crt", f"--key={self.folder}/tls.key"]
        process = start(command, log)
        while not _is_ready(port):
            if process.poll() is not None:
                raise RuntimeError(log.read_text()[-500:])
            time.sleep(0.1)
        self.running.append((process, port))
        self.balancer.ready.append(port)

    def retire(self) -> int:
        """The oldest gets no new connections, then SIGTERM; its exit code."""
        process, port = self.running.pop(0)
        self.balancer.ready.remove(port)
        time.sleep(LEAVING)
        process.send_signal(signal.SIGTERM)
        return process.wait(60)

    def kill_worker(self) -> None:
        """SIGKILL for the worker of the oldest, as the kernel does where memory ends."""
        process, _ = self.running[0]
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)

    def end(self) -> None:
        """All of them, at once."""
        self.balancer.end()
        for process, _ in self.running:
            kill(process)


def _is_ready(port: int) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with closing(http.client.HTTPSConnection(HOST, port, timeout=5, context=context)) as connection:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
    except OSError:
        return False


class Creator:
    """Creates Pods (dry run) over one connection, and knows what must become of each."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.context = ssl.create_default_context(cafile=str(cluster.root / "ca.crt"))
        self.connection = http.client.HTTPSConnection(HOST, cluster.port, timeout=60, context=self.context)

    def close(self) -> None:
        """No more Pods."""
        self.connection.close()

    def create(self, number: int) -> tuple[str, str]:
        """What became of Pod `number`, and the answer where that is not what it should be."""
        pod = _pod(number)
        bad = number % 3 == 0
        body = json.dumps(doomed(pod) if bad else pod)
        path = f"/api/v1/namespaces/{self.namespace}/pods?dryRun=All"
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"}
        try:
            self.connection.request("POST", path, body, headers)
            answer = self.connection.getresponse()
            status, text = answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as problem:
            self.connection.close()  # the next request opens another
            return LOST, f"no answer: {problem!r}"
        if (status, bad) == (201, False):
            return GOOD, ""
        if status == 403 and bad and "vLLM would not start" in text:
            return BAD, ""
        return (WRONG if status in (201, 403) else LOST), f"{status} {text[:400]}"


def _pod(number: int) -> JSONDict:
    pod = deepcopy(GOOD_POD)
    pod["metadata"] = {"name": f"pod-{number}"}
    container = pod["spec"]["containers"][0]
    container["env"] = [*container.get("env", []), {"name": "NUMBER", "value": str(number)}]
    return pod


@contextmanager
def replicas(cluster: Cluster, name: str) -> Iterator[tuple[Replicas, Callable[[bytes], None]]]:
    """Two replicas that the API server asks with failurePolicy Fail; and how to set the CA bundle."""
    values = {"webhooks": {"failurePolicy": "Fail", "timeoutSeconds": 10}}
    with installed(cluster, name, values) as first:
        folder = first.log.parent
        for file in ("tls.crt", "tls.key", "ca.crt", "ca.key"):
            (folder / file).write_bytes((folder / "tls" / file).read_bytes())
        two = Replicas(name, folder)
        try:
            two.add()
            two.add()

            def bundle(ca: bytes) -> None:
                for configuration in first.webhooks:
                    changed = deepcopy(configuration)
                    for webhook in changed["webhooks"]:
                        path = "/" + webhook["clientConfig"]["url"].rpartition("/")[2]
                        url = f"https://{HOST}:{two.balancer.port}{path}"
                        webhook["clientConfig"] = {"url": url, "caBundle": base64.b64encode(ca).decode()}
                    place = f"{REGISTRATION}/{configuration['kind'].lower()}s/{configuration['metadata']['name']}"
                    cluster.patch(place, {"webhooks": changed["webhooks"]})

            bundle((folder / "ca.crt").read_bytes())
            make_namespace(cluster, name, name)
            first.gone()
            time.sleep(2)  # the API server follows its configurations within a second
            yield two, bundle
        finally:
            two.end()


def rotate(two: Replicas, bundle: Callable[[bytes], None]) -> None:
    """Another CA and another certificate: first both CAs, then the new pair, then the new CA alone."""
    folder, old = two.folder, (two.folder / "ca.crt").read_bytes()
    new = folder / "next"
    new.mkdir(exist_ok=True)
    certs.write(new, [HOST])
    bundle(old + (new / "ca.crt").read_bytes())
    time.sleep(2)
    for name in ("tls.key", "tls.crt"):  # a pair that does not match for a moment, as with any two files
        (new / name).replace(folder / name)
    (new / "ca.crt").replace(folder / "ca.crt")


@dataclass
class Churned:
    """What became of the Pods, and what happened meanwhile."""

    seen: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    """Answers that were not as they should be, and changes that failed."""
    seconds: float = 0.0

    @property
    def changes(self) -> int:
        """Restarts, reloads, rotations and kills."""
        return sum(self.acts[act] for act in ("restart", "policy", "certificate", "kill"))

    @property
    def excused(self) -> int:
        """Reviews that were in flight when a worker was killed, at most."""
        return self.acts["kill"] * CALLERS

    @property
    def failed(self) -> int:
        """Replicas that ended with another code than 0, and changes that could not be made."""
        return self.acts["exit not 0"] + self.acts["a change failed"]

    def __str__(self) -> str:
        return f"{self.seen.total()} Pods in {self.seconds:.0f} s: {dict(self.seen)}, beside {dict(self.acts)}"


def churn(cluster: Cluster, reviews: int, changes: int, *, killing: bool) -> Churned:
    """Creates that many Pods, or more until so many changes were made, while everything about the replicas changes."""
    found, lock = Churned(), threading.Lock()
    seen, acts, told = found.seen, found.acts, found.told
    numbers, changed, done = count(), threading.Event(), threading.Event()
    begun = time.monotonic()
    with replicas(cluster, "killed" if killing else "restarted") as (two, bundle):

        def create() -> None:
            with closing(Creator(cluster, two.name)) as creator:
                while True:
                    with lock:
                        number = next(numbers)
                    if number >= reviews and changed.is_set():
                        return
                    what, why = creator.create(number)
                    with lock:
                        seen[what] += 1
                        if why:
                            told.append(why)

        def change() -> None:
            try:
                for act in cycle(("restart", "policy", "certificate", "restart", "kill" if killing else "policy")):
                    make(act)
                    if found.changes >= changes:
                        changed.set()
                    if done.wait(0.5):
                        return
            except Exception as problem:  # a replica that does not start or stop, an API server that rejects a patch
                acts["a change failed"] += 1
                told.append(repr(problem))
            finally:
                changed.set()

        def make(act: str) -> None:
            if act == "restart":
                two.add()
                acts["exit 0" if two.retire() == 0 else "exit not 0"] += 1
            elif act == "policy":
                two.write_policy(("audit", "warn")[acts["policy"] % 2])
            elif act == "certificate":
                rotate(two, bundle)
            else:
                two.kill_worker()
            acts[act] += 1

        def tell() -> None:
            with lock:
                found.seconds = time.monotonic() - begun
                print(found, flush=True)

        begun = time.monotonic()
        changing = threading.Thread(target=change)
        callers = [threading.Thread(target=create) for _ in range(CALLERS)]
        for thread in (changing, *callers):
            thread.start()
        with repeated(tell, PROGRESS):
            for caller in callers:
                caller.join()
            done.set()
            changing.join()
        found.seconds = time.monotonic() - begun
    return found


def churned(reviews: int, *, killing: bool) -> int:
    """Prints what became of them; 1 where a goal was missed."""
    with running() as cluster:
        found = churn(cluster, reviews, CHANGES, killing=killing)
    print(f"{found}; {load()}", *found.told[:3], sep="\n     ")
    wrong, lost = found.seen[WRONG], found.seen[LOST]
    good = wrong == found.failed == 0 and lost <= found.excused and found.changes >= CHANGES
    good = good and found.seen.total() >= reviews
    print("ok  " if good else "MISS", f"{wrong} wrong (goal 0), {lost} failed (goal <= {found.excused})")
    print(f"     {found.changes} changes (goal >= {CHANGES}), {found.failed} of them failed (goal 0)")
    return not good


def latency(reviews: int) -> int:
    """The API server's own histogram of its webhooks at 100 Pods a second, and what podfit adds to an apply."""
    with running() as cluster, installed(cluster, "measured") as podfit:
        make_namespace(cluster, "measured", "measured")
        make_namespace(cluster, "free", "nobody")
        before = _buckets(cluster)
        numbers, lock = iter(range(1, 1 << 30)), threading.Lock()
        end, rate = time.monotonic() + reviews / 100, 100 / CALLERS

        def create(index: int) -> None:
            due = time.monotonic() + index / 100
            with closing(Creator(cluster, "measured")) as creator:
                while time.monotonic() < end:
                    time.sleep(max(0.0, due - time.monotonic()))
                    due += 1 / rate
                    with lock:
                        number = next(numbers)
                    creator.create(number)

        callers = [threading.Thread(target=create, args=(index,)) for index in range(CALLERS)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        after = _buckets(cluster)
        missed = 0
        for name in sorted(after):
            counts = {le: after[name][le] - before.get(name, {}).get(le, 0) for le in after[name]}
            total = counts["+Inf"]
            if total < 50:
                continue
            p50, p99 = (next(le for le, n in counts.items() if n >= share * total) for share in (0.5, 0.99))
            good = float(p50) <= 0.005 and float(p99) <= 0.025
            missed += not good
            inside = ", ".join(f"<= {le} s: {n / total:.1%}" for le, n in counts.items() if float(le) <= 0.1)
            text = f"{name}: {total:.0f} calls, p50 in <= {p50} s, p99 in <= {p99} s ({inside})"
            print("ok  " if good else "MISS", text, " (goal <= 0.005, <= 0.025)")
        bad = json.dumps(deployment(doomed(GOOD_POD)))
        took: dict[str, list[float]] = {"measured": [], "free": []}
        for _ in range(30):
            for namespace, times in took.items():
                times.append(_apply(cluster, namespace, bad))
        added = (statistics.median(took["measured"]) - statistics.median(took["free"])) * 1000
        missed += added > 20
        print("ok  " if added <= 20 else "MISS", f"a bad Deployment's apply: {added:+.1f} ms by podfit  (goal <= 20)")
        print(f"     {podfit.reviews():.0f} reviews; {load()}")
    return bool(missed)


def _apply(cluster: Cluster, namespace: str, body: str) -> float:
    """Seconds of what `kubectl apply` asks for: a dry run leaves nothing that the next one would meet."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments?dryRun=All"
    begun = time.perf_counter()
    cluster.call("POST", path, json.loads(body))
    return time.perf_counter() - begun


_BUCKET = re.compile(r'(?=.*\ble="([^"]+)")(?=.*\bname="([^"]+)")')


def _buckets(cluster: Cluster) -> dict[str, dict[str, float]]:
    """Name of each webhook → upper bound → calls, from the API server's metrics."""
    name = "apiserver_admission_webhook_admission_duration_seconds_bucket"
    _, text = cluster.call("GET", "/metrics")
    found: dict[str, dict[str, float]] = {}
    for line in str(text).splitlines():
        if line.startswith(name) and (one := _BUCKET.search(line)):
            bound, hook = one[1], one[2]
            by = found.setdefault(hook, {})
            by[bound] = by.get(bound, 0.0) + float(line.rpartition(" ")[2])
    return found


def main(argv: Sequence[str]) -> int:
    """Runs what is asked for, or all; 1 where a goal was missed."""
    reviews = int(argv[1]) if len(argv) > 1 else REVIEWS
    what: dict[str, Callable[[], int]] = {
        "latency": lambda: latency(min(reviews, 6_000)),
        "restarts": lambda: churned(reviews, killing=False),
        "kill": lambda: churned(reviews, killing=True),
    }
    chosen = [argv[0]] if argv else list(what)
    return max(what[name]() for name in chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
