"""One comment on a pull request with what it changes: the GitHub Action's second step.

Runs `podfit diff` of the base against the checkout, and makes, updates or leaves alone the one comment that has the
marker and the token's own author. Without changes, a comment of before says so, and none is made. A token that can't
write (forks, Dependabot) leaves the text in the step summary. The program needs nothing but Python and podfit.

Usage: comment.py BASE FILE…, in the checkout, with the variables of a runner and TOKEN.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from podfit import cli
from podfit.cli.support import edge
from podfit.report.markdown import code

MARKER = "<!-- podfit diff -->"
MAX_BYTES = 60_000
"""GitHub rejects a comment of more than 65,536 characters."""
NOTHING = "podfit: this pull request changes nothing about vLLM containers any more."
PAGES, PER_PAGE = 30, 100
"""Comments that are looked through."""


def main() -> int:
    """0 also if no comment can be written: the step reports, and never fails a pull request by itself."""
    base, *names = sys.argv[1:]
    text = changes(base, names)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if text and summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    number = event.get("pull_request", {}).get("number")
    if not isinstance(number, int):
        return 0
    try:
        publish(number, text)
    except (OSError, http.client.HTTPException, ValueError) as error:  # also an answer that is cut off, or no JSON
        reason = f"{error.code}" if isinstance(error, urllib.error.HTTPError) else type(error).__name__
        print(f"::notice::podfit: the comment can't be written ({reason}); the step summary has it")
    return 0


def changes(base: str, names: Sequence[str]) -> str:
    """What changes, as Markdown of bounded length; "" if nothing does."""
    blocks = []
    for name in names:
        sides = [side(Path(base) / name), side(Path(name))]
        if sides == [os.devnull, os.devnull]:
            continue
        words = ["diff", "--config", base, "--format", "json", "--", *sides]
        compared = run(words)
        if not compared:  # the log says why; it is not "nothing changes"
            blocks.append(f"podfit: {code(name)} can't be compared with the base branch.\n")
        elif any(one["state"] != "unchanged" for one in json.loads(compared)["changes"]):
            words[words.index("json")] = "markdown"
            blocks.append(run(words))
    return bounded("\n".join(blocks))


def side(path: Path) -> str:
    """A file, folder or pattern as one side of `podfit diff`; the null device if no manifest is there."""
    try:
        met = [*edge.files([str(path)])]
    except edge.UnusableError:
        return os.devnull
    return str(path) if any(Path(one).exists() for one in met) else os.devnull


def run(words: Sequence[str]) -> str:
    """What a command of podfit prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        cli.main(words)
    return out.getvalue()


def bounded(text: str) -> str:
    """The text, cut at the end of a line if it is too long for a comment."""
    data = text.encode(errors="replace")
    if len(data) <= MAX_BYTES:
        return text
    kept = data[:MAX_BYTES].decode(errors="ignore").rpartition("\n")[0]
    return f"{kept}\n\n… and more: `podfit diff` shows all of it.\n"


def publish(number: int, text: str) -> None:
    """Make or update the comment."""
    own = find(number)
    if own is None and not text:
        return
    body = {"body": f"{MARKER}\n{text or NOTHING}"}
    if own is None:
        request("POST", f"issues/{number}/comments", body)
    elif own["body"] != body["body"]:
        request("PATCH", f"issues/comments/{own['id']}", body)


def find(number: int) -> dict[str, Any] | None:
    """The comment that this Action made: it begins with the marker, and a bot wrote it. Anyone can write a marker."""
    for page in range(1, PAGES + 1):
        found = request("GET", f"issues/{number}/comments?per_page={PER_PAGE}&page={page}")
        for one in found:
            author = one.get("user") or {}
            if str(one.get("body")).startswith(MARKER) and author.get("login") == os.environ["AUTHOR"]:
                return dict(one)
        if len(found) < PER_PAGE:
            return None
    return None


def request(method: str, path: str, body: dict[str, str] | None = None) -> Any:
    """One request to the repository's API."""
    url = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}"
    made = urllib.request.Request(  # noqa: S310 - the runner's own API
        url,
        json.dumps(body).encode() if body is not None else None,
        {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['TOKEN']}",
            "Content-Type": "application/json",
            "User-Agent": "podfit",
        },
        method=method,
    )
    with urllib.request.urlopen(made, timeout=30) as answer:  # noqa: S310
        return json.load(answer)


if __name__ == "__main__":
    sys.exit(main())
