"""The examples in docs/rules/: the lines of a manifest that matter."""

from __future__ import annotations

import pytest

from scripts import rule_pages

MANIFEST = """\
# Why it is bad
apiVersion: v1
kind: Pod
metadata:
  name: qwen
  labels:
    app: qwen
    tier: gpu
    team: chat
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.27.1
    args: [Qwen/Qwen3-8B]
    env:
    - name: A
      value: "1"
    - name: B
      value: "2"
    - name: C
      value: "3"
    volumeMounts:
    - name: models
      mountPath: /models
"""
ROWS = MANIFEST.splitlines()


@pytest.mark.parametrize("line", range(1, len(ROWS) + 1))
def test_an_excerpt_has_the_line_what_it_is_in_and_what_every_reader_needs(line: int) -> None:
    shown = rule_pages.excerpt(MANIFEST, {line}).split("\n")

    assert ROWS[line - 1] in shown
    assert {"# Why it is bad", "kind: Pod", "spec:", "  - name: vllm", "    args: [Qwen/Qwen3-8B]"} <= set(shown)
    assert [row for row in shown if row.strip() != "# …"] == [row for row in ROWS if row in shown]


def test_lines_that_are_left_out_are_marked_at_the_depth_of_the_next() -> None:
    shown = rule_pages.excerpt(MANIFEST, {13}).split("\n")

    assert shown[3:6] == ["# …", "spec:", "  containers:"]


def test_a_short_manifest_is_shown_whole() -> None:
    short = "\n".join(ROWS[: rule_pages.WHOLE])

    assert rule_pages.excerpt(short, {2}) == short
