"""Whatever an object contains, the answer is short, readable, and says the most important thing."""

from __future__ import annotations

import base64
import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.evaluation import bounds, review
from podfit.evaluation.policy import Policy, builtin, load
from podfit.rules import all_rules
from podfit.vllm.facts import Facts
from tests.conftest import GOOD_POD
from tests.reviews import admission_review

JSONDict = dict[str, Any]
STATUS = 32_000
"""Bytes of `status` as JSON: a condition, into which a ReplicaSet copies a denial, ends at 32,768."""
FIRST, LAST = "vLLM would not start: 3 problems", "next: podfit explain a"
REST = bounds.MAX_MESSAGE_BYTES - bounds.size(f"{FIRST}\n\n\n\n{LAST}") - 80 - 4


def _utf8(text: str) -> int:
    return len(text.encode())


# ── Tables: one below, at and above each bound ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "size"), [("a", 1), ('"', 2), ("\n", 2), ("<", 6), ("&", 6), ("é", 6), ("漢", 6), ("😀", 12), ("", 0)]
)
def test_size_is_what_the_longest_writer_of_json_makes_of_it(text: str, size: int) -> None:
    assert bounds.size(text) == size


@pytest.mark.parametrize(("letter", "size"), [("a", 1), ("é", 6), ("<", 6), ('"', 2)])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_text_is_cut_where_it_has_one_byte_too_many(letter: str, size: int, more: int) -> None:
    text = letter * 20
    cut = bounds.cut(text, 20 * size - more)

    assert bounds.size(cut) <= 20 * size - more
    assert (cut == text) is (more <= 0)
    assert more <= 0 or cut == letter * ((20 * size - more - 6) // size) + "…"


@pytest.mark.parametrize(("length", "shown"), [(REST - 1, True), (REST, True), (REST + 1, False)])
def test_a_message_has_as_many_blocks_as_there_is_room_for(length: int, shown: bool) -> None:
    block = "x" * (length - bounds.size("small\n\n\n\n"))
    message = bounds.message(FIRST, ["small", block], 2, LAST)

    assert message.startswith(f"{FIRST}\n\nsmall\n\n")
    assert message.endswith(f"\n\n{LAST}")
    assert ("xxx" in message) is shown
    assert ("\n\nand 1 more\n\n" in message) is not shown
    assert bounds.size(message) <= bounds.MAX_MESSAGE_BYTES


def test_a_block_that_is_too_long_alone_ends_at_one_of_its_lines() -> None:
    block = "\n".join(["rule  path", *(f"  line {number} {'é' * 200}" for number in range(40))])
    message = bounds.message(FIRST, iter([block, "second"]), 2, LAST)

    assert bounds.size(message) <= bounds.MAX_MESSAGE_BYTES
    lines = message.split("\n")
    assert lines[2] == "rule  path"
    assert all(line in block.split("\n") for line in lines[2:-4])
    assert lines[-4:] == ["", "and 1 more", "", LAST]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_what_fits_is_whole(count: int) -> None:
    blocks = [f"block {number}" for number in range(count)]

    assert bounds.message(FIRST, blocks, count, LAST) == "\n\n".join([FIRST, *blocks, LAST])
    rows = [bounds.Cause("rule", "spec", block) for block in blocks]
    assert bounds.causes(rows) == [{"reason": "rule", "field": "spec", "message": block} for block in blocks]
    assert bounds.join_bounded(blocks) == ",".join(blocks)
    assert bounds.warnings(blocks) == blocks


def _many_causes(count: int) -> list[dict[str, str]]:
    return bounds.causes([bounds.Cause("rule", "spec", "m" * 100)] * count)


def test_causes_end_with_how_many_more_there_are() -> None:
    most = next(count for count in range(1, 1000) if _many_causes(count)[-1]["reason"] == "podfit") - 1

    assert len(json.dumps(_many_causes(most))) <= bounds.MAX_CAUSES_BYTES
    for count in (most + 1, most + 2, 10_000):
        causes = _many_causes(count)
        assert len(json.dumps(causes)) <= bounds.MAX_CAUSES_BYTES
        assert causes[-1]["message"] == f"and {count - len(causes) + 1:,} more"
    assert len(json.dumps(_many_causes(most))) > bounds.MAX_CAUSES_BYTES - 400, "it is used"


@pytest.mark.parametrize("text", ["m" * 20_000, "é" * 20_000, "<" * 20_000, "😀" * 20_000])
def test_a_cause_is_short(text: str) -> None:
    (cause,) = bounds.causes([bounds.Cause("rule", text, text)])

    assert bounds.size(cause["message"]) <= bounds.MAX_TEXT_BYTES >= bounds.size(cause["field"])


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_an_annotation_is_listed_as_far_as_there_is_room(more: int) -> None:
    words = ["a" * 99] * 10 + ["b" * (bounds.MAX_TEXT_BYTES - 1000 + more)]
    listed = bounds.join_bounded(words)

    assert (listed == ",".join(words)) is (more <= 0)
    assert bounds.size(listed) <= bounds.MAX_TEXT_BYTES
    assert more <= 0 or listed.endswith(",+2")


@pytest.mark.parametrize("letter", ["a", "é", "漢", "😀"])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_warning_is_cut_by_characters_and_by_bytes(letter: str, more: int) -> None:
    most = min(bounds.MAX_WARNING_LENGTH, bounds.MAX_WARNING_BYTES // _utf8(letter))
    line = letter * (most + more)
    warning = bounds.warning(line)

    assert (warning == line) is (more <= 0)
    assert len(warning) <= bounds.MAX_WARNING_LENGTH
    assert _utf8(warning) <= bounds.MAX_WARNING_BYTES
    assert bounds.warning(f"one {line}", "; repaired").endswith("…; repaired")


@pytest.mark.parametrize("letter", ["a", "漢"])
def test_warnings_are_counted_where_there_is_no_room(letter: str) -> None:
    line = letter * (bounds.MAX_WARNING_LENGTH if letter == "a" else 80)
    for count in (10, 16, 17, 33, 34, 35, 1000):
        warnings = bounds.warnings([line] * count)
        assert sum(map(_utf8, warnings)) <= bounds.MAX_WARNINGS_BYTES
        told = [one for one in warnings if one == line]
        assert warnings[len(told) :] in ([], [f"podfit: {count - len(told)} more warnings; podfit check shows all"])
        assert len(told) == count or len(warnings) == len(told) + 1


# ── Any object ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _every_rule(mode: str) -> Policy:
    spec = {"rules": {rule: {"mode": mode} for rule in all_rules()}, "enforce": {"ownedPods": "deny"}}
    policy = {"apiVersion": "podfit.dev/v1alpha1", "kind": "Policy", "metadata": {"name": mode}, "spec": spec}
    return load([("policy.yaml", json.dumps(policy))])


POLICIES = (builtin(), _every_rule("deny"), _every_rule("warn"))
CONTROLS = "\x00\x07\x1b\x7f\x85\x9b\r\n\t\u200b\u202e\u2028\u2029\u2066\ufeff\ud800"
HOSTILE = st.text(st.one_of(st.sampled_from(CONTROLS + "<>&\"'\\é漢😀 -=,{}$()"), st.characters()), min_size=1)


def wrong(response: JSONDict) -> list[str]:
    """What of an answer's bounds and promises is broken."""
    found = []
    status, warnings = response.get("status"), response.get("warnings", [])
    annotations = response.get("auditAnnotations", {})
    long = [
        line for line in warnings if len(line) > bounds.MAX_WARNING_LENGTH or _utf8(line) > bounds.MAX_WARNING_BYTES
    ]
    if long or not all(line.isprintable() for line in warnings):
        found.append(f"a warning: {warnings}")
    if sum(map(_utf8, warnings)) > bounds.MAX_WARNINGS_BYTES:
        found.append("warnings")
    if any(_utf8(value) > bounds.MAX_TEXT_BYTES or not value.isprintable() for value in annotations.values()):
        found.append(f"an annotation: {annotations}")
    if status is None:
        return found
    message, causes = status["message"], status["details"]["causes"]
    lines = message.split("\n")
    if _utf8(message) > bounds.MAX_MESSAGE_BYTES or bounds.size(message) > bounds.MAX_MESSAGE_BYTES:
        found.append("message")
    if len(json.dumps(causes)) > bounds.MAX_CAUSES_BYTES or len(json.dumps(status)) > STATUS:
        found.append("status")
    if not all(line.isprintable() for line in lines):
        found.append(f"control characters: {message!r}")
    if not lines[-1].startswith("next: podfit explain ") or len(lines[0]) > 200:
        found.append(f"first or last line: {lines[0]!r}, {lines[-1]!r}")
    if not all(text.isprintable() for cause in causes for text in cause.values()):
        found.append("control characters in a cause")
    if causes[0]["reason"] not in lines[0] or not any(line.startswith(causes[0]["reason"]) for line in lines):
        found.append(f"the first finding is not named: {causes[0]['reason']}")
    return found


def responses(pod: JSONDict) -> list[JSONDict]:
    """What both webhooks answer, as a program reads it."""
    asked = review.parse(json.dumps(admission_review(pod)).encode())
    answers = [decide(asked, policy, Facts()) for policy in POLICIES for decide in (review.validate, review.mutate)]
    read = [json.loads(json.dumps(answer))["response"] for answer in answers]
    for one in read:
        if "patch" in one:
            json.loads(base64.b64decode(one.pop("patch")))
    return read


@settings(max_examples=40)
@given(st.lists(HOSTILE, min_size=1, max_size=4), st.integers(0, 3), st.sampled_from([1, 10, 1000]))
def test_every_answer_is_bounded_and_readable(texts: list[str], place: int, times: int) -> None:
    pod = deepcopy(GOOD_POD)
    container = pod["spec"]["containers"][0]
    texts = [text * times for text in texts]
    container["args"] = ["--model", "Qwen/Qwen3-8B", "--no-such-flag"]
    if place == 0:
        container["args"] += texts
    elif place == 1:
        container["args"] += [f"--no-such-{text}" for text in texts]
        container["env"] = [{"name": "VLLM_WORKER_MULTIPROC_METHOD", "value": text} for text in texts]
    elif place == 2:
        container["args"] += ["--compilation-config", json.dumps({text[:9]: text for text in texts})]
        container["name"] = texts[0]
    else:
        pod["metadata"] |= {"name": texts[0], "annotations": {"podfit.dev/ignore.unknown-flag": texts[-1]}}
        container["readinessProbe"] = {"httpGet": {"path": texts[0], "port": texts[-1]}}

    assert [line for one in responses(pod) for line in wrong(one)] == []


def _pod(*args: str) -> JSONDict:
    pod = deepcopy(GOOD_POD)
    pod["spec"]["containers"][0]["args"] = ["--model", "Qwen/Qwen3-8B", *args]
    return pod


def test_thousands_of_unknown_keys_are_one_finding() -> None:
    pod = _pod("--compilation-config", json.dumps({f"k{number}": 1 for number in range(4500)}))
    response, *_ = responses(pod)

    assert not wrong(response)
    (cause,) = response["status"]["details"]["causes"]
    first = ", ".join(f"'k{number}'" for number in range(5))
    assert cause["message"] == (
        f"--compilation-config has 4,500 keys that vLLM 0.27.1 does not know: {first} and 4,495 more"
    )


def test_a_long_flag_is_quoted_once_without_its_middle() -> None:
    response, *_ = responses(_pod("--no-such-" + "x" * 60_000 + "-end"))
    message = response["status"]["message"]

    assert not wrong(response)
    assert message.count("--no-such-xxx") == 1
    assert "(60,038 characters)" in message
    assert "x-end'" in message
    assert len(message) < 2000


def test_most_findings_are_counted_and_the_first_of_each_rule_are_told() -> None:
    pod = _pod(*(f"--no-such-flag-{number}" for number in range(280)), "--tensor-parallel-size", "3")
    response, *_ = responses(pod)
    causes = response["status"]["details"]["causes"]
    blocks = response["status"]["message"].split("\n\n")

    assert not wrong(response)
    assert {cause["reason"] for cause in causes[:5]} >= {"unknown-flag", "tensor-parallel-indivisible"}
    assert blocks[-2].startswith("and ")
    assert len(blocks) - 3 + int(blocks[-2].split()[1]) >= 281
    assert causes[-1]["message"].startswith("and ")


def test_the_check_itself_finds_what_is_wrong() -> None:
    causes = [{"reason": "r", "field": "\x1b", "message": "m" * bounds.MAX_CAUSES_BYTES}]
    status = {"message": "é" * 5000 + "\u202e", "details": {"causes": causes}}
    bad = {"warnings": ["漢" * 120] * 20, "auditAnnotations": {"rules": "x" * 1025}, "status": status}

    assert len(wrong(bad)) == 9
