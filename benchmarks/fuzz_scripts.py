"""Made-up shell scripts against the reader of scripts: none ends the process, none takes long, memory does not grow.

Scripts come from a grammar, from the examples' own scripts with a few changes, and from constructs that are nested or
repeated up to the longest script that is read. The reader runs as in the server, in a thread with the stack of
its threads. Some scripts are read close to Python's recursion limit, some are interrupted as by a deadline. A batch
runs in a process of its own, so that a crash names the script: `--show NUMBER` prints it.

python -m benchmarks.fuzz_scripts [SCRIPTS [FIRST]] | --show NUMBER
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import mmap
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.fuzz import resident
from benchmarks.mutations import corpus
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube import workload
from podfit.server.memory import STACK
from podfit.vllm.command import ALL_WORK, WorkLimit, resolve
from podfit.vllm.command.tree import MAX_SCRIPT_LENGTH
from podfit.vllm.facts import Facts

SCRIPTS = 1_000_000
BATCH = 20_000
SLOW = 1.0
"""Seconds of a processor: half of what one review may take (`podfit.server.deadline.JUDGING`)."""
GROWTH = 8.0
"""MiB that a batch may leave in memory behind its first tenth."""
LINTED, INTERRUPTED, NEARLY_TOO_DEEP = 0.02, 0.03, 0.03
"""Of all scripts: evaluated by all rules, interrupted at some moment, and read with few frames left."""
_RAISE = ctypes.pythonapi.PyThreadState_SetAsyncExc


GRAMMAR: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "name": (("x", "y", "ARGS", "MODEL", "HOME", "LWS_WORKER_INDEX"), ()),
    "word": (
        ("a", "--port=8000", "m/n", "'a b'", '"a b"', "*", "{a,b}{1..3}", "~", "é", "\\ ", "$'\\n'", '""', "-n", "1",
         "$‹name›", '"$@"', "$#", "$?", "$(echo a)", "`echo a`"),
        ('"‹word›‹word›"', "‹word›‹word›", "$(‹statement›)", "`‹command›`", "${‹name›‹operator›‹word›}",
         "${#‹name›}", "${!‹name›}", "${‹name›[@]}", "${‹name›[‹word›]}", "$((‹sum›))", "<(‹statement›)", "$(<‹word›)"),
    ),
    "operator": ((":-", ":=", ":+", ":?", "#", "##", "%", "/", "//", ":", "^", "@Q"), ()),
    "sum": (
        ("1", "x", "$x", "08", "x++", "0x1f"),
        ("(‹sum›)", "‹sum›‹sign›‹sum›", "‹sum› ? ‹sum› : ‹sum›", "-‹sum›", "‹word›"),
    ),
    "sign": (("+", "-", "*", "/", "%", "<", ">", "&", "|", "^", "=", ",", "**", "<<", "&&", "+="), ()),
    "question": (
        (":", "true", "false", "test -n $x", "grep -q a b", "f"),
        ("[ ‹word› = ‹word› ]", "[[ ‹word› == ‹word› && ( -n ‹word› || ! -f ‹word› ) ]]", "(( ‹sum› ))", "! ‹command›"),
    ),
    "program": (
        ("echo", "f", "g", "export", "local", "set --", "shift", "read", "eval", "cat", "printf %s", "exit", "return",
         "env -S", "exec", "pip install", "vllm bench", "sleep", "unset", "declare -a", "trap", "cd", "let", "xargs",
         "x=1", ". ./f", "sh f", "tmux new", "break", "ray start --address", "su -c", "command -v", "nohup", "test"),
        (),
    ),
    "command": (("‹program›", "‹program› a"), ("‹program› ‹word›", "‹program› ‹word› ‹word›")),
    "statement": (
        ("‹command›",),
        ("‹command›", "‹name›=‹word›", "‹name›+=‹word›", "‹name›=(‹word› ‹word›)", "(‹block›)", "{ ‹block›; }",
         "if ‹question›; then ‹block›; elif ‹question›; then ‹block›; else ‹block›; fi", "‹statement› &",
         "for i in ‹word› ‹word›; do ‹block›; done", "for ((i=0; i<‹sum›; i++)); do ‹block›; done",
         "while ‹question›; do ‹block›; done", "until ‹question›; do ‹block›; done", "f() { ‹block›; }",
         "g() { ‹block›; }", "case ‹word› in ‹word›) ‹block›;; *) ‹block›;; esac", "‹statement› | ‹statement›",
         "‹statement› && ‹statement›", "‹statement› || ‹statement›", "‹statement› > ‹word›",
         "‹statement› 2>&1 >> ‹word›", "‹statement› <<< ‹word›", "cat > f <<E\n‹block›\nE\n. f",
         "cat > f <<'E'\n‹block›\nE\nsh f", "sh -c ‹'block›", "bash -ec ‹'block›", "eval ‹'block›",
         "env -S ‹'command›"),
    ),
    "block": (("‹statement›",), ("‹statement›", "‹statement›; ‹statement›", "‹statement›\n‹statement›\n‹statement›")),
}  # fmt: skip
"""Part of a script → how it may be written: with nothing in it, or with other parts. A part behind a `'` is quoted."""
_PART = re.compile("‹('?)([a-z]+)›")


def grown(random: Random, part: str, depth: int) -> str:
    """A part with no more than so many others within each other."""
    plain, nested = GRAMMAR[part]
    form = random.choice(nested if nested and depth > 0 and random.random() < 0.85 else plain)

    def inner(match: re.Match[str]) -> str:
        text = grown(random, match[2], depth - 1)
        return shlex.quote(text) if match[1] else text

    return _PART.sub(inner, form)


NESTS = (
    ("( ", " )"), ("{ ", "; }"), ("$(", ")"), ('"$(echo ', ')"'), ("${A:-", "}"), ('"${A:-', '}"'), ("$((", "))"),
    ("$((1+(", ")))"), ("`", "`"), ("if a; then ", "; fi"), ("if a; then b; el", "if c; then d; fi"), ("! ", ""),
    ("while a; do ", "; done"), ("for i in 1; do ", "; done"), ("case a in a) ", ";; esac"), ("f() { ", "; }"),
    ("[[ ( a && ", " ) ]]"), ("[[ ", " ]]"), ("a && ", ""), ("a || ", ""), ("a | ", ""), ("eval ", ""), ("sh -c ", ""),
    ("A=(", ")"), ("<<E\n", "\nE\n"), ("cat <(", ")"), ("{a,", "}"), ("((", "))"), ("1+", ""), ("env -S '", "'"),
    ("time ", ""), ("xargs ", ""), ("busybox ", ""), ("su -- ", ""), ("tmux new ", ""), ("f() { f; }; ", ""),
)  # fmt: skip
"""What may be put into itself: before it, and behind it."""
UNITS = (
    "$[", "]", "]]", "%", "A[1]=", "${A#*/", '"$@"', "==", "=~", "case", "-", "+", "++", "~", "^^", "<<<", "))", "=(",
    ">>", "<", ">", "|", "&", ";", ";;", "!", "?", "*", "/", "\\", "1", "a", "A[", "${", "${!A}", "<<E", "$((", "((",
    "[[", "[", "{", "(", '"', "'", "`", "#", "é", "\t", "\n", "esac", "fi", "done", "then", "do", "in", "if", "for",
    "while", "function", "select", "until", "x=", "$'", '$"', "@(", "{1..", "A=(", "..", ",", ":", "@", "a$", "08",
    "0x",
)  # fmt: skip
"""What is repeated up to the longest script."""


@cache
def written() -> tuple[str, ...]:
    """The scripts of the rules' examples."""
    found: list[str] = []
    todo: list[Any] = list(corpus())
    for one in todo:  # grows while it is walked
        todo += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        if isinstance(one, str) and ("vllm" in one or "\n" in one) and " " in one:
            found.append(one)
    return tuple(dict.fromkeys(found))


def script(number: int) -> str:
    """The script of a number, the same at each call."""
    random = Random(number)  # noqa: S311 - no secret
    kind = random.random()
    if kind < 0.60:
        text = "\n".join(grown(random, "block", random.randrange(2, 9)) for _ in range(random.randrange(1, 6)))
    elif kind < 0.85:
        text = random.choice(written())
        other = random.choice(written())
        for _ in range(random.randrange(1, 4)):
            at = random.randrange(len(text) + 1)
            text = (
                text[:at] + random.choice((grown(random, "block", 3), other[: random.randrange(40)], "\n")) + text[at:]
            )
    elif kind < 0.997:
        (before, behind), times = random.choice(NESTS), int(2 ** (random.random() * 10))
        inner, (more, back) = random.choice(("x", "vllm serve m", grown(random, "word", 2))), random.choice(NESTS)
        mixed = random.random() < 0.3
        text = (before + mixed * more) * times + inner + (mixed * back + behind) * (times - random.choice((0, 0, 0, 1)))
    else:
        unit = random.choice(UNITS) + random.choice(("", " ", "\n"))
        text = random.choice(NESTS)[0] + random.choice(UNITS) + unit * (MAX_SCRIPT_LENGTH // len(unit))
    for _ in range(random.choice((0, 0, 0, 1, 3, 10))):
        at = random.randrange(len(text) + 1)
        text = text[:at] + random.choice(("", *UNITS)) + text[at + random.randrange(3) :]
    return text[: random.choice((MAX_SCRIPT_LENGTH, MAX_SCRIPT_LENGTH, MAX_SCRIPT_LENGTH + 1))] + random.choice(
        ("", "\nvllm serve m --port $x $ARGS", "\n")
    )


def read(text: str, whole: bool) -> str:
    """What is found; `whole`: evaluated by all rules."""
    container = {"name": "v", "image": "vllm/vllm-openai:v0.27.1", "command": ["bash", "-c", text, "sh", "a", "b"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    if whole:
        report = lint(pod, builtin(), Facts(), where="admission")
        if report.errors:
            return f"error: {report.errors[0]}"
        return "judged"
    (one,) = workload.find(pod)
    found = resolve(one, one.containers[0], {}, WorkLimit(ALL_WORK))
    return "nothing" if found is None else "too complex" if found.unread else "read"


class Interrupted(BaseException):
    """As `podfit.server.deadline.OutOfTime`, at any moment."""


def _deep(call: Callable[[], str], frames: int) -> str:
    return _deep(call, frames - 1) if frames else call()


def _interrupted(text: str, seconds: float) -> str:
    """Reads a text, and is interrupted after that long."""
    thread, ended = threading.get_ident(), threading.Event()
    lock = threading.Lock()

    def interrupt() -> None:
        ended.wait(seconds)
        with lock:
            if not ended.is_set():
                _RAISE(ctypes.c_ulong(thread), ctypes.py_object(Interrupted))

    other = threading.Thread(target=interrupt)
    other.start()
    try:
        said = read(text, whole=False)
        with lock:
            ended.set()
        return said
    except (Interrupted, SystemError):  # an error in C code that was interrupted by it
        return "interrupted"
    finally:
        ended.set()
        _RAISE(ctypes.c_ulong(thread), None)
        other.join()


def batch(first: int, count: int, where: Path) -> dict[str, Any]:
    """Reads some scripts in this process; `where`: the number of the one that is being read."""
    said: Counter[str] = Counter()
    slow: list[tuple[float, int]] = []
    wrong: list[str] = []
    memory: list[int] = []
    threading.stack_size(STACK)
    with where.open("r+b") as file:
        current = mmap.mmap(file.fileno(), 8)

    def run() -> None:
        for number in range(first, first + count):
            current[:] = struct.pack("<q", number)
            text = script(number)
            begun = time.thread_time()
            found = _read_somehow(text, Random(-number))  # noqa: S311
            slow[:] = sorted([*slow, (time.thread_time() - begun, number)])[-5:]
            said[found.partition(":")[0]] += 1
            if found.startswith("error"):
                wrong.append(f"{number}: {found}")
            if (number - first + 1) % max(1, count // 10) == 0:
                memory.append(resident())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if said.total() < count:
        wrong.append(f"{first + said.total()}: the thread has ended")
    growth = (memory[-1] - memory[0]) / 2**20 if len(memory) > 1 else 0.0
    return {"said": dict(said), "slow": slow, "wrong": wrong, "growth": growth}


def _read_somehow(text: str, random: Random) -> str:
    """Reads a text in one of the ways, and says what is found."""
    how, few = random.random(), False
    try:
        if how < LINTED:
            return read(text, whole=True)
        if how < LINTED + INTERRUPTED:
            return _interrupted(text, random.random() ** 3 / 500)
        few = how < LINTED + INTERRUPTED + NEARLY_TOO_DEEP
        used = sys.getrecursionlimit() - random.randrange(20, 250) if few else 0
        return _deep(lambda: read(text, whole=False), used)
    except Interrupted:
        return "interrupted"
    except RecursionError as error:
        return "few frames" if few else f"error: {error}"
    except Exception as error:
        return f"error: {type(error).__name__}: {error}"


def main(argv: Sequence[str]) -> int:
    """Prints what came out; 1 where something must not have."""
    if argv[:1] == ["--show"]:
        print(script(int(argv[1])))
        return 0
    if argv[:1] == ["--batch"]:
        faulthandler.enable()
        print(json.dumps(batch(int(argv[1]), int(argv[2]), Path(argv[3]))))
        return 0
    count, first = int(argv[0]) if argv else SCRIPTS, int(argv[1]) if len(argv) > 1 else 0
    said: Counter[str] = Counter()
    slow: list[Any] = []
    bad: list[str] = []
    begun, at = time.monotonic(), first
    while at < first + count:
        size = min(BATCH, first + count - at)
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(8))
            file.flush()
            own = [sys.executable, "-m", "benchmarks.fuzz_scripts", "--batch", str(at), str(size), file.name]
            done = subprocess.run(own, capture_output=True, text=True, check=False)
            reached = struct.unpack("<q", Path(file.name).read_bytes())[0]
        if done.returncode:
            bad.append(f"script {reached} ended the process ({done.returncode}): {done.stderr[:600]}")
            print(bad[-1], flush=True)
            at = reached + 1
            continue
        found = json.loads(done.stdout)
        said.update(found["said"])
        slow = sorted([*slow, *found["slow"]])[-5:]
        bad += found["wrong"]
        if found["growth"] > GROWTH:
            bad.append(f"scripts {at} to {at + size} left {found['growth']:.1f} MiB")
        at += size
        print(
            f"{at - first} scripts in {time.monotonic() - begun:.0f} s, {len(bad)} bad, slowest {slow[-1][0]:.2f} s "
            f"({slow[-1][1]}), {found['growth']:+.1f} MiB in the last {size}",
            flush=True,
        )
    print(f"{dict(said)}\nslowest: {', '.join(f'{number} {took:.2f} s' for took, number in reversed(slow))}")
    print("\n".join(bad[:20]))
    return bool(bad or (slow and slow[-1][0] > SLOW))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
