"""`podfit diagnose`: every cause on what its programs print, however wrapped, and none on healthy Pods."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.cli import main
from podfit.diagnose import Diagnosis, calibrate, diagnose, log
from podfit.diagnose.causes import CAUSES
from podfit.diagnose.line import depends_on_digits, read
from podfit.diagnose.needles import Index, is_anchored, needles
from podfit.diagnose.sighting import signatures
from podfit.evaluation.policy import builtin
from podfit.kube import manifest as kube_manifest
from podfit.report import diagnosis as diagnosis_report
from podfit.vllm.facts import Facts
from tests.cluster.server import Server

CASES = Path(__file__).parent
"""CAUSE.txt: `=== what is special`, then the text, as often as there are cases. none.txt: what is not a failure."""
SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schemas" / "diagnose.json").read_text())


def _cases() -> Iterator[tuple[str | None, str, str]]:
    for path in sorted(CASES.glob("*.txt")):
        for part in re.split(r"(?m)^=== ", path.read_text())[1:]:
            name, _, text = part.partition("\n")
            yield None if path.stem == "none" else path.stem, name, text


ALL = [pytest.param(cause, text, id=f"{cause}: {name}") for cause, name, text in _cases()]
LOGS = [
    pytest.param(cause, text, id=f"{cause}: {name}")
    for cause, name, text in _cases()
    if not re.search(r"(?m)^(?:apiVersion|Name|Events|LAST SEEN|NAME|Status|\{)|^  Warning  ", text)
]


def _one(text: str) -> Diagnosis:
    (found,) = diagnose(text)
    return found


def _id(found: Diagnosis) -> str | None:
    return found.cause.id if found.cause else None


@pytest.mark.parametrize(("cause", "text"), ALL)
def test_the_cause_is_told_with_the_line_that_says_it(cause: str | None, text: str) -> None:
    found = _one(text)

    assert _id(found) == cause
    if cause is not None:
        assert found.evidence
        assert found.plane is not None
        if found.line is not None:
            assert found.evidence[0] in text.splitlines()[found.line - 1]


def test_every_cause_has_a_case_and_every_case_a_cause() -> None:
    assert {path.stem for path in CASES.glob("*.txt")} == {*CAUSES, "none"}


def _ansi(line: str) -> str:
    return re.sub(r"^(\([^)]*\))? ?((?:ERROR|WARNING|INFO)\b)?", "\x1b[0;36m\\1\x1b[0;0m \x1b[31m\\2\x1b[0m", line)


def _docker(line: str) -> str:
    return json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-03-03T10:00:00.123456789Z"})


def _stackdriver(line: str) -> str:
    return json.dumps({"severity": "ERROR", "textPayload": line, "timestamp": "2026-03-03T10:00:00Z"})


def _stream_of_information(line: str) -> str:
    """What a program writes to standard output is information to a collector, a traceback too."""
    return json.dumps({"severity": "INFO", "jsonPayload": {"message": line}, "kubernetes": {"pod": "vllm-0"}})


def _otel(line: str) -> str:
    return json.dumps({"severityText": "INFO", "body": {"stringValue": line}})


@pytest.mark.parametrize(
    "wrap",
    [
        _ansi,
        _docker,
        _stackdriver,
        lambda line: f"2026-03-03T10:00:00.123456789Z {line}",
        lambda line: f"2026-03-03T10:00:00.123456789+00:00 stderr F {line}",
        lambda line: f"[pod/vllm-0/vllm] {line}",
        lambda line: f"vllm-1  | {line}",
        lambda line: line + "\r",
        _stream_of_information,
        _otel,
        lambda line: f"Aug 17 18:42:18 gpu-1 vllm[8052]: {line}",
        lambda line: f"2026-03-03 10:00:00,123 - INFO - [container] {line}",
        lambda line: f'2026-03-03T10:00:00Z {{app="vllm", pod="vllm-0"}} {line}',
        lambda line: json.dumps({"labels": {"pod": "vllm-0"}, "line": line, "timestamp": "2026-03-03T10:00:00Z"}),
        lambda line: f"vllm-7d9c6b5f4-abcde vllm › {line}",
        lambda line: f"> {line}",
    ],
    ids=[
        "colours",
        "docker",
        "stackdriver",
        "timestamps",
        "containerd",
        "prefix",
        "compose",
        "carriage return",
        "stream of information",
        "opentelemetry",
        "syslog",
        "launcher",
        "logcli",
        "logcli, jsonl",
        "stern",
        "quotation",
    ],
)
def test_what_collectors_put_around_a_line_changes_nothing(wrap: Callable[[str], str]) -> None:
    told = {
        case.id: (cause, _id(_one("\n".join(wrap(line) for line in text.splitlines()))))
        for case in LOGS
        for cause, text in [(case.values[0], str(case.values[1]))]
    }

    assert {case: pair for case, pair in told.items() if pair[0] != pair[1]} == {}


def test_an_answer_of_loki_is_read_by_stream_and_time() -> None:
    cause = (
        "ValueError: Free memory on device (2.0/79.1 GiB) on startup is less than desired GPU memory utilization (0.9)."
    )
    late = ["1700000009000000000", "(APIServer pid=1) RuntimeError: Engine core initialization failed."]
    failed = {"stream": {"pod": "vllm-0"}, "values": [late, ["1700000001000000000", cause]]}
    good = {"stream": {"pod": "vllm-1"}, "values": [["1700000005000000000", "INFO:     Application startup complete."]]}
    text = json.dumps({"status": "success", "data": {"resultType": "streams", "result": [good, failed]}})

    found = _one(text)

    assert _id(found) == "gpu-memory-taken"
    assert cause in found.evidence[0]


def test_an_empty_message_does_not_hide_the_next_key() -> None:
    line = "ValueError: No available memory for the cache blocks."
    assert _id(_one(json.dumps({"message": "", "log": line}))) == "no-kv-blocks"


def test_records_in_records_are_read_a_few_levels_deep() -> None:
    """A line of 1,000 of them ends in no error."""
    line = "ValueError: No available memory for the cache blocks."
    assert _id(_one('{"log":' * 3 + json.dumps(line) + "}" * 3)) == "no-kv-blocks"
    assert _id(_one('{"log":' * 900 + "1" + "}" * 900)) is None


def test_vllms_own_json_lines_are_read_with_level_and_traceback() -> None:
    record = {
        "asctime": "2026-03-03 10:00:00,123", "levelname": "ERROR", "name": "vllm.v1.engine.core",
        "processName": "EngineCore", "process": 60, "message": "EngineCore failed to start.",
        "exc_info": "Traceback (most recent call last):\n  File \"core.py\", line 1, in run\nValueError: No available "
        "memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
    }  # fmt: skip
    quiet = {"levelname": "WARNING", "message": "CUDA out of memory while tuning, tactic skipped"}

    assert _id(_one("\n".join(map(json.dumps, (quiet, record))))) == "no-kv-blocks"
    assert _id(_one(json.dumps(quiet))) is None


@pytest.mark.parametrize(("cause", "text"), [one for one in LOGS if one.values[0] is not None])
def test_a_log_that_was_cut_off_after_the_cause_still_tells_it(cause: str, text: str) -> None:
    found = _one(text)
    assert found.line is not None

    # A symptom may need the lines below it, as statistics of a minute do; a cause does not.
    if found.certainty == "certain" and found.signature and found.signature.channel == "log":
        assert _id(_one("\n".join(text.splitlines()[: found.line + 2]))) == cause


def test_the_first_error_is_told_and_what_follows_is_named_beside_it() -> None:
    found = _one(
        "(Worker_TP0 pid=7) ERROR 04-22 15:14:02 [multiproc_executor.py:857] RuntimeError: Insufficient space in "
        "/dev/shm for shared-memory allocation: 160 MiB required, 64 MiB free.\n"
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
        "ERROR 04-22 15:14:04 [multiproc_executor.py:135] Worker proc VllmWorker-1 died unexpectedly\n"
    )

    assert _id(found) == "shm-too-small"
    assert found.then[0] == "gpu-out-of-memory"


def test_a_start_that_failed_before_the_one_that_runs_is_over() -> None:
    failed = next(text for cause, name, text in _cases() if (cause, name) == ("no-kv-blocks", "0.10"))
    good = next(text for cause, name, text in _cases() if (cause, name) == (None, "a good start"))

    assert _id(_one(failed + "\n" + good)) is None
    assert _id(_one(good + "\n" + failed)) == "no-kv-blocks"


@pytest.mark.parametrize(
    ("started", "mount", "cause"),
    [("2m", "5m", None), ("5m", "2m", True), ("2m (x3 over 9m)", "5m", None), ("<unknown>", "2m", None)],
)
def test_only_a_later_event_solves_a_problem(started: str, mount: str, cause: bool | None) -> None:
    """A StatefulSet's Pod has the name of the one before, whose Events are still there."""
    table = (
        f"{started}   Normal   Started      pod/vllm-0   Started container vllm\n"
        f'{mount}   Warning   FailedMount   pod/vllm-0   MountVolume.SetUp failed for volume "models" : '
        "mount failed: exit status 32\n"
    )

    assert (_id(_one(table)) is not None) == bool(cause)


@pytest.mark.parametrize(("started", "solved"), [("10:05:00Z", True), ("09:00:00Z", False)])
def test_the_times_of_event_objects_count_too(started: str, solved: bool) -> None:
    def event(reason: str, message: str, at: str) -> dict[str, Any]:
        place = {"kind": "Pod", "namespace": "chat", "name": "vllm-0"}
        return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": reason.lower()}, "involvedObject": place,
                "type": "Warning", "reason": reason, "message": message, "firstTimestamp": f"2026-05-04T{at}",
                "lastTimestamp": f"2026-05-04T{at}"}  # fmt: skip

    failed = event("FailedMount", 'MountVolume.SetUp failed for volume "models" : mount failed', "10:00:00Z")
    ran = event("Started", "Started container vllm", started)
    found = diagnose(json.dumps({"apiVersion": "v1", "kind": "List", "items": [failed, ran]}))

    assert [_id(one) is None for one in found] == [solved]


def test_several_pods_are_diagnosed_one_by_one() -> None:
    def pod(name: str, reason: str) -> dict[str, Any]:
        ended = {"reason": reason, "exitCode": 137}
        status = {"containerStatuses": [{"name": "vllm", "lastState": {"terminated": ended}}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "status": status}

    found = diagnose(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod("a", "OOMKilled"), pod("b", "Error")]})
    )

    assert [_id(one) for one in found] == ["oom-killed", None]


@given(
    st.text(max_size=400),
    st.sampled_from(["", "LAST SEEN TYPE REASON\n", "kind: Pod\nstatus: ", "{", "State: Waiting\n"]),
)
def test_any_text_is_read_without_an_error(text: str, head: str) -> None:
    assert diagnose(head + text)


@given(st.lists(st.sampled_from([text for *_, text in _cases()]), min_size=2, max_size=3))
def test_files_joined_to_one_are_read_without_an_error(texts: list[str]) -> None:
    assert diagnose("\n".join(texts))


def test_a_line_that_fits_a_signature_has_one_of_its_needles() -> None:
    lines = {line.text for *_, text in _cases() for line in read(text)}

    for one in signatures("log"):
        words = needles(one.signature.pattern)
        for line in lines:
            if words is not None and one.pattern.search(line):
                assert any(word in line for word in words), (words, line)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("CUDA out of memory", {"CUDA out of memory"}),
        (r"\bHIP error: (?:invalid|no kernel)", {"HIP error: "}),
        ("[Ff]ailed to load|Killed", {"ailed to load", "Killed"}),
        (r"colou?r (?:red|blue)", {"colo"}),
        (r"x(?:reddish|bluish)", {"reddish", "bluish"}),
        (r"tokens? \d+ of \d+", {"token"}),
        (r"(?:a|b)+", None),
        (r"(?!never)\w+ (?:maybe)?", None),
        (r"World size \(\d+\) is larger", {"World size ("}),
        (r"[]x]errno", {"errno"}),
    ],
)
def test_needles_are_the_longest_words_that_every_match_has(pattern: str, words: set[str] | None) -> None:
    assert needles(pattern) == words


@given(st.text(alphabet="abcd12 ", max_size=30))
def test_an_index_leaves_out_only_patterns_that_do_not_match(text: str) -> None:
    patterns = ["abc", r"ab+c\d", "(?:abcd|bcd)a", r"a{2,}bc", "d?abc", "a.c"]

    found = Index(patterns).candidates(text)

    assert all(place in found for place, one in enumerate(patterns) if re.search(one, text))


@pytest.mark.parametrize(
    ("pattern", "anchored"),
    [("^a", True), ("^(?:a|b)c", True), (r"^[|a]\|", True), ("^a|b", False), ("a", False), ("(?:^a|b)", False)],
)
def test_a_pattern_is_anchored_if_each_of_its_matches_begins_with_the_text(pattern: str, anchored: bool) -> None:
    assert is_anchored(pattern) is anchored


def test_anchored_signatures_match_where_a_search_finds_them() -> None:
    for compiled in signatures("log"):
        if is_anchored(compiled.pattern.pattern):
            for _, _, text in _cases():
                for line in text.splitlines():
                    assert bool(compiled.pattern.match(line)) is bool(compiled.pattern.search(line))


@pytest.mark.parametrize(
    ("pattern", "depends"),
    [
        (r"\[Errno 28\]", True),
        (r"[1-9]\d* reqs", True),
        (r"World size \(\d+\)", False),
        (r"\w{0,80} of \d{3,}", False),
    ],
)
def test_a_pattern_with_a_digit_distinguishes_digits(pattern: str, depends: bool) -> None:
    assert depends_on_digits(pattern) == depends


def test_lines_that_differ_in_digits_alone_have_one_shape() -> None:
    first, second = read("(Worker_TP1 pid=48) ERROR 04-22 15:14:02 [a.py:8] 1 of 2\n"
                         "(Worker_TP3 pid=59) ERROR 05-11 10:00:00 [a.py:7] 3 of 4")  # fmt: skip

    assert first.shape is second.shape
    assert (first.source, first.text) == ("Worker_TP1 pid=48", "1 of 2")
    assert (second.source, second.text) == ("Worker_TP3 pid=59", "3 of 4")


def test_the_condition_of_a_signature_is_one_of_single_lines() -> None:
    """Each line of a traceback is searched for it, so it may not span two."""
    conditions = {one.pattern for row in signatures("log") for one in (row.within, row.unless) if one}

    assert [one for one in conditions if re.search(r"\\[snW]|\[\^|\^|\$|\(\?s", one)] == []


def test_the_texts_of_a_start_do_not_depend_on_digits() -> None:
    patterns = (calibrate.PRINTS, calibrate.START_LINE, calibrate.MODEL, calibrate.ARGUMENTS, calibrate.TOKENS,
                calibrate.LENGTH, calibrate.LONGEST, *(pattern for pattern, _ in calibrate.PRINTED))  # fmt: skip

    assert [one.pattern for one in patterns if depends_on_digits(one.pattern)] == []


def test_of_a_repeated_failure_the_reading_keeps_a_few_lines() -> None:
    text = "\n".join(f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n} MiB." for n in range(500))

    reading = log.read(read(text))

    assert len(reading.sightings) == 5
    assert _one(text).evidence == tuple(text.splitlines()[:5])


def test_a_line_keeps_its_number_process_and_level() -> None:
    lines = read("\n(Worker_TP1 pid=486) ERROR 04-22 15:14:02 [multiproc_executor.py:857] boom\nplain")

    assert [(one.number, one.source, one.level, one.text) for one in lines] == [
        (2, "Worker_TP1 pid=486", "error", "boom"),
        (3, "", None, "plain"),
    ]


# ── The command ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _text(cause: str | None, name: str) -> str:
    return next(text for one, title, text in _cases() if (one, title) == (cause, name))


def test_the_json_has_what_it_promises(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "crash.log"
    log.write_text(_text("gpu-out-of-memory", "while weights are loaded, 0.10"))
    good = tmp_path / "good.log"
    good.write_text("INFO:     Application startup complete.\n")

    assert main(["diagnose", "--format", "json", str(log), str(good)]) == 0
    printed = json.loads(capsys.readouterr().out)
    jsonschema.validate(printed, SCHEMA)
    first, second = printed["results"]

    assert (first["file"], first["plane"], first["cause"], first["rule"]) == (
        str(log), "gpu", "gpu-out-of-memory", "gpu-memory-exceeded",
    )  # fmt: skip
    assert "CUDA out of memory" in first["evidence"][0]
    assert (second["plane"], second["cause"], second["evidence"], second["rule"]) == (None, None, [], None)


def test_with_the_manifest_come_its_plan_the_rule_that_finds_it_and_the_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pod.json").write_text(_text("oom-killed", "Pod as JSON"))

    assert main(["diagnose", "--format", "json", str(tmp_path / "pod.json")]) == 0
    printed = json.loads(capsys.readouterr().out)
    jsonschema.validate(printed, SCHEMA)
    (found,) = printed["results"]

    assert (found["cause"], found["rule"]) == ("oom-killed", "memory-limit-missing")
    assert found["plans"][0]["model"]["id"] == "Qwen/Qwen2.5-7B-Instruct"
    assert any(one["path"].endswith("/resources") for one in found["patch"])


PREDICTED = {
    (str(case.values[0]), rule): str(case.values[1])
    for case in reversed(ALL)
    if case.values[0]
    for found in diagnose(str(case.values[1]))
    for rule in found.rules
}
"""Causes and the rules that predict them, each with a text."""
RULES = Path(__file__).parents[1] / "rules"
OF_OTHER_OBJECTS = {
    "driver-too-old-for-image", "no-gpu-toleration", "no-node-matches", "read-write-once-with-replicas",
    "service-link-clash",
}  # fmt: skip
"""Rules that need the cluster's nodes, a claim or a Service, too."""


@pytest.mark.parametrize(("cause", "rule"), sorted(pair for pair in PREDICTED if pair[1] not in OF_OTHER_OBJECTS))
def test_the_finding_that_predicts_a_cause_is_named_with_it(cause: str, rule: str) -> None:
    diagnosis = replace(_one(PREDICTED[cause, rule]), start=None)
    named: set[str | None] = set()
    for manifest in (RULES / rule).glob("bad*.yaml"):
        pod = next((one.object for one in kube_manifest.read(manifest.read_bytes(), "").documents), None)
        case = diagnosis_report.case("log.txt", diagnosis, pod, builtin(), Facts())
        if case.report is not None and rule in {finding.rule for finding in case.report.findings}:
            named.add(case.manifest_finding.rule if case.manifest_finding else None)

    assert named
    assert None not in named
    assert rule in named or named <= {*diagnosis.rules}


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("vllm serve: error: unrecognized arguments: --swap-space 4", "removed-flag"),
        ("vllm serve: error: unrecognized arguments: --max-model-length 8192", "unknown-flag"),
        ("vllm serve: error: argument --dtype: invalid choice: 'fp16'", "invalid-flag-value"),
        ("RuntimeError: Insufficient space in /dev/shm for x: 160 MiB required, 64 MiB free.", "shm-missing"),
        ("RuntimeError: Insufficient space in /dev/shm for x: 9000 MiB required, 1024 MiB free.", "shm-too-small"),
    ],
)
def test_the_rule_is_the_one_that_the_line_speaks_of(line: str, rule: str) -> None:
    assert _one(line).rules[0] == rule


REASONS = {
    "kv_cache_dtype not supported": "leave --kv-cache-dtype out",
    "compute capability not supported": "no kernels for this GPU",
    "attention sinks not supported": "gpt-oss",
    "sink setting not supported": "gpt-oss",
    "sink not supported on compute capability < 9.0": "gpt-oss",
    "head_size not supported": "head_dim",
    "dtype not supported": "half or bfloat16",
    "block_size not supported": "--block-size",
    "MLA not supported": "needs a backend of that name",
    "sparse not supported": "needs a backend of that name",
    "non-MLA not supported": "only for models of DeepSeek",
    "non-sparse not supported": "only for models of DeepSeek",
    "partial multimodal token full attention not supported": "Gemma 3",
    "attention type encoder_only not supported": "encoder",
    "batch invariance not supported": "VLLM_BATCH_INVARIANT",
    "KV connector not supported": "--kv-transfer-config",
    "DCP not supported": "--decode-context-parallel-size",
    "ImportError": "package is not in the image",
    "FP8 KV cache requires FA3 on SM90 or FA4 on SM100": "leave --kv-cache-dtype out",
}
"""What vLLM 0.11.1 to 0.33 says against an attention backend, and what podfit says of it."""


@pytest.mark.parametrize("reason", REASONS)
def test_of_each_reason_against_an_attention_backend_only_its_meaning_is_told(reason: str) -> None:
    told = _one(f"ValueError: Selected backend X is not valid for this configuration. Reason: ['{reason}']").remedy

    assert told is not None
    assert {said for said in REASONS.values() if said in told} == {REASONS[reason]}


def test_standard_input_is_read_and_text_names_plane_and_rule(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = _text("shm-too-small", "0.27").encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text), encoding="utf-8"))

    assert main(["diagnose", "-"]) == 0
    out = capsys.readouterr().out

    assert out.startswith("-:1: /dev/shm is too small  [host memory]\n  cause     shm-too-small\n")
    assert "64 MiB free" in " ".join(out.split())
    assert "podfit explain shm-missing" in out


def test_what_can_not_be_read_is_told_and_the_rest_still_diagnosed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "crash.log"
    log.write_bytes(b"\xff\xfe garbage \x00\nKilled\n"[2:] + b"\nBus error (core dumped)\n\xe9\n")

    assert main(["diagnose", str(tmp_path / "none.log"), str(log)]) == 3
    said = capsys.readouterr()

    assert "none.log: no such file or directory" in said.err
    assert "shm-too-small" in said.out


def test_a_pod_is_asked_for_by_name(api_server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    pod = json.loads(_text(None, "exit code 137 alone"))
    pod["metadata"] |= {"name": "vllm-0", "namespace": "chat"}
    place = "/api/v1/namespaces/chat/pods/vllm-0"
    api_server.answers[place] = pod
    api_server.answers["/api/v1/namespaces/chat/events"] = {"items": []}
    api_server.answers[f"{place}/log"] = _text("kv-cache-too-small", "0.24")

    assert main(["diagnose", "vllm-0", "-n", "chat"]) == 0

    assert "kv-cache-too-small" in capsys.readouterr().out
    events, log, current = api_server.asked[-3:]
    assert events.query == {"fieldSelector": "involvedObject.name=vllm-0"}
    container = pod["spec"]["containers"][0]["name"]
    assert log.query == {"container": container, "previous": "true", "limitBytes": str(64 << 20)}
    assert current.query == {"container": container, "limitBytes": str(64 << 20)}


def test_a_right_that_the_caller_lacks_is_a_note(api_server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    pod = json.loads(_text("oom-killed", "Pod as JSON"))
    pod["metadata"] |= {"name": "vllm-0", "namespace": "chat"}
    place = "/api/v1/namespaces/chat/pods/vllm-0"
    api_server.answers[place] = pod
    api_server.answers["/api/v1/namespaces/chat/events"] = (403, {}, {"message": "events is forbidden"})
    api_server.answers[f"{place}/log"] = (403, {}, {"message": "pods/log is forbidden"})

    assert main(["diagnose", "vllm-0", "-n", "chat"]) == 0

    said = capsys.readouterr()
    assert "oom-killed" in said.out
    assert "note: the Events are not read: 403: events is forbidden" in said.err
    assert "note: the logs are not read: 403: pods/log is forbidden" in said.err


def test_the_log_that_is_left_is_read_if_the_kubelet_removed_the_one_before(
    api_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = json.loads(_text(None, "exit code 137 alone"))
    pod["metadata"] |= {"name": "vllm-0", "namespace": "chat"}
    place = "/api/v1/namespaces/chat/pods/vllm-0"
    api_server.answers[place] = pod
    api_server.answers["/api/v1/namespaces/chat/events"] = {"items": []}
    removed = "unable to retrieve container logs for containerd://8bf6c926"
    api_server.answers[f"{place}/log"] = [removed, "Bus error (core dumped)\n"]

    assert main(["diagnose", "vllm-0", "-n", "chat"]) == 0

    assert "shm-too-small" in capsys.readouterr().out


def test_a_pod_that_is_not_there_is_told_in_the_servers_words(
    api_server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api_server.answers["/api/v1/namespaces/chat/pods/vllm-9"] = (404, {}, {"message": 'pods "vllm-9" not found'})
    (tmp_path / "crash.log").write_text("Bus error (core dumped)\n")

    assert main(["diagnose", "vllm-9", str(tmp_path / "crash.log")]) == 3

    said = capsys.readouterr()
    assert said.err == 'error: pod/vllm-9: 404: pods "vllm-9" not found\n'
    assert "shm-too-small" in said.out, "the others go on"


# ── The log and the manifest ─────────────────────────────────────────────────────────────────────────────────────────

MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: llama}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.10.2
    args: [--model, meta-llama/Llama-3.1-8B-Instruct, --max-model-len, "40000", --api-key, sk-planted-in-the-manifest]
    resources: {limits: {nvidia.com/gpu: 1, memory: 32Gi}}
"""
RAN = """\
INFO 05-04 10:00:01 [api_server.py:1896] vLLM API server version 0.10.2
INFO 05-04 10:00:01 [utils.py:328] non-default args: {'model_tag': 'meta-llama/Llama-3.1-8B-Instruct', \
'max_model_len': 40000, 'api_key': ['sk-planted-in-the-log']}
INFO 05-04 10:00:40 [gpu_worker.py:298] Available KV cache memory: 4.47 GiB
"""
TOO_SMALL = (
    "ERROR 05-04 10:00:41 [core.py:718] ValueError: To serve at least one request with the models's max seq len "
    "(40000), (4.88 GiB KV cache is needed, which is larger than the available KV cache memory (4.47 GiB). Based on "
    "the available memory, the estimated maximum model length is 36608. Try increasing `gpu_memory_utilization`.\n"
)
OF_40_GB = "INFO 05-04 10:00:20 [x.py:1] Free memory on device (39.10/39.49 GiB) on startup.\n"


def _told(tmp_path: Path, capsys: pytest.CaptureFixture[str], log: str, *words: str) -> str:
    (tmp_path / "crash.log").write_text(log)
    (tmp_path / "pod.yaml").write_text(MANIFEST)
    assert main(["diagnose", *words, str(tmp_path / "crash.log"), "--manifest", str(tmp_path / "pod.yaml")]) == 0
    return capsys.readouterr().out


def test_a_log_of_another_gpu_is_the_first_line_and_its_values_are_planned_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = _told(tmp_path, capsys, RAN + OF_40_GB + TOO_SMALL, "-v")

    first, _, rest = _flat(out).partition(" The plan uses the values of the log.")
    assert "GPU memory: 39.49 GiB in the log, 79.14 GiB (NVIDIA A100 80GB SXM4) in the manifest" in first
    assert "DOES NOT FIT: 4.5 GiB of KV cache" in rest


def test_a_log_of_this_manifest_contradicts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_80_gb = OF_40_GB.replace("39.49", "79.15")
    printed = json.loads(_told(tmp_path, capsys, RAN + of_80_gb, "--format", "json"))
    jsonschema.validate(printed, SCHEMA)

    assert printed["results"][0]["contradictions"] == []


@pytest.mark.parametrize(
    ("ran", "name", "log", "manifest"),
    [
        (RAN.replace("0.10.2", "0.11.0"), "vLLM", "0.11.0", "0.10.2"),
        (RAN.replace("40000", "8192"), "--max-model-len", "8192", "40000"),
        (RAN.replace("'max_model_len': 40000, ", ""), "--max-model-len", "not set", "40000"),
        (RAN.replace("'max_model_len'", "'enforce_eager': True, 'max_model_len'"), "--enforce-eager", "True", "False"),
        (RAN.replace("3.1-8B", "3.2-1B"), "model", "meta-llama/Llama-3.2-1B-Instruct",
         "meta-llama/Llama-3.1-8B-Instruct"),
        ("INFO vLLM API server version 0.10.2\nINFO Using max model len 8192\n", "--max-model-len", "8192", "40000"),
    ],
)  # fmt: skip
def test_each_value_that_differs_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ran: str, name: str, log: str, manifest: str
) -> None:
    printed = json.loads(_told(tmp_path, capsys, ran, "--format", "json"))
    jsonschema.validate(printed, SCHEMA)

    assert printed["results"][0]["contradictions"] == [{"name": name, "log": log, "manifest": manifest}]


def test_of_several_starts_that_failed_the_last_one_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = _told(
        tmp_path, capsys, (RAN + TOO_SMALL).replace("40000", "50000").replace("36608", "11111") + RAN + TOO_SMALL
    )

    assert "--max-model-len 36608 fits" in _flat(out)
    assert "11111" not in out
    assert "50000" not in out


def test_a_path_that_an_operator_fills_is_no_other_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = _told(tmp_path, capsys, RAN.replace("meta-llama/Llama-3.1-8B-Instruct", "/mnt/models") + TOO_SMALL)

    assert "is not the log" not in out


def test_the_remedy_has_vllms_own_number_and_the_evidence_is_not_cut_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = _told(tmp_path, capsys, RAN + TOO_SMALL)

    assert "remedy --max-model-len 36608 fits" in _flat(out)
    assert "the estimated maximum model length is 36608" in _flat(out)
    assert "sk-planted" not in out


@pytest.mark.parametrize(("cause", "text"), ALL)
def test_a_diagnosis_is_short(cause: str | None, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "crash.log").write_text(text)
    assert main(["diagnose", str(tmp_path / "crash.log")]) == 0

    assert len(capsys.readouterr().out.splitlines()) <= 12, cause


def _flat(text: str) -> str:
    return " ".join(text.split())


SERVED = """\
(APIServer pid=1) INFO 09-30 18:29:05 [api_server.py:1839] vLLM API server version 0.11.0
(APIServer pid=1) INFO 09-30 18:29:05 [utils.py:233] non-default args: {'model_tag': '/mnt/models', 'port': 8080, \
'model': '/mnt/models', 'max_model_len': 32768, 'served_model_name': ['llama'], 'gpu_memory_utilization': 0.5}
(EngineCore_DP0 pid=121) INFO 09-30 18:29:30 [gpu_worker.py:298] Available KV cache memory: 3.50 GiB
(EngineCore_DP0 pid=121) ERROR 09-30 18:29:33 [core.py:718] ValueError: To serve at least one request with the \
models's max seq len (32768), (4.00 GiB KV cache is needed, which is larger than the available KV cache memory (3.50 \
GiB). Based on the available memory, the estimated maximum model length is 28672.
"""
LIMITS = "resources: {limits: {nvidia.com/gpu: 1, memory: 32Gi}}"
A100 = "nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}"
URI = "hf://meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize(
    "spec",
    [
        f"predictor: {{{A100}, model: {{modelFormat: {{name: vLLM}}, storageUri: '{URI}', args: [LENGTH], {LIMITS}}}}}",
        f"model: {{uri: '{URI}', name: llama}}, template: {{{A100}, containers: [{{name: main, "
        f"env: [{{name: VLLM_ADDITIONAL_ARGS, value: LENGTH}}], {LIMITS}}}]}}",
    ],
    ids=["InferenceService", "LLMInferenceService"],
)
@pytest.mark.parametrize(("length", "contradicts"), [(8192, True), (32768, False)])
def test_arguments_of_a_kserve_manifest_are_held_against_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spec: str, length: int, contradicts: bool
) -> None:
    kind, version = ("InferenceService", "v1beta1") if "predictor" in spec else ("LLMInferenceService", "v1alpha1")
    head = f"apiVersion: serving.kserve.io/{version}\nkind: {kind}\nmetadata: {{name: llama}}\n"
    words = f"--max-model-len={length} --gpu-memory-utilization=0.5".split()
    given_words = ", ".join(words) if "args" in spec else " ".join(words)
    (tmp_path / "llm.yaml").write_text(f"{head}spec: {{{spec.replace('LENGTH', given_words)}}}\n")
    (tmp_path / "log.txt").write_text(SERVED)

    main(["diagnose", str(tmp_path / "log.txt"), "--manifest", str(tmp_path / "llm.yaml"), "--format", "json"])
    (found,) = json.loads(capsys.readouterr().out)["results"]

    expected = [{"name": "--max-model-len", "log": "32768", "manifest": "8192"}]
    assert found["contradictions"] == (expected if contradicts else [])
    (plan,) = found["plans"]
    assert plan["engine"]["arguments"]["max_model_len"] == 32768
    assert plan["model"]["id"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert plan["verdict"] == "does-not-fit"


# ── What helps, with its values ──────────────────────────────────────────────────────────────────────────────────────

CACHE = """\
INFO 09-30 18:28:40 [api_server.py:1896] vLLM API server version 0.21.0
INFO 09-30 18:28:40 [utils.py:328] non-default args: {'model_tag': 'Qwen/Qwen3-8B', 'gpu_memory_utilization': SHARE}
INFO 09-30 18:29:20 [gpu_worker.py:298] Free memory on device cuda:0 (78.9/79.18 GiB)
ERROR 09-30 18:29:33 [core.py:718] ValueError: To serve at least one request with the models's max seq len (40960), \
(5.62 GiB KV cache is needed, which is larger than the available KV cache memory (3.11 GiB). Based on the available \
memory, the estimated maximum model length is 22624.
"""


FULL = """\
(EngineCore pid=7) ERROR 07-02 11:20:31 [core.py:1]   File "/opt/vllm/vllm/v1/worker/gpu_worker.py", line 1, in {}
(EngineCore pid=7) ERROR 07-02 11:20:31 [core.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate \
1.96 GiB. GPU 0 has a total capacity of 22.06 GiB of which 1.40 GiB is free. Including non-PyTorch memory, this \
process has 20.60 GiB memory in use.
"""


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (CACHE.replace("SHARE", "0.8"), "--max-model-len 22624 fits, as vLLM estimates (40960 now)."),
        (CACHE.replace("SHARE", "0.8"), "Raise --gpu-memory-utilization from 0.8 to 0.84: the KV cache needs 5.62 GiB"),
        (CACHE.replace("SHARE", "0.93"), "Use a larger GPU or a higher --tensor-parallel-size"),
        (CACHE.replace("SHARE", "0.93"), "`podfit plan Qwen/Qwen3-8B` lists the GPUs that fit."),
        (
            "ValueError: Free memory on device (13.58/15.99 GiB) on startup is less than desired GPU memory "
            "utilization (0.85, 13.59 GiB). Decrease GPU memory utilization.",
            "Lower --gpu-memory-utilization from 0.85 to 0.84, or end the other process: 13.58 of 15.99 GiB are free.",
        ),
        (
            "ValueError: World size (4) is larger than the number of available GPUs (1) in this node.",
            "Raise the GPU limit (nvidia.com/gpu) from 1 to 4",
        ),
        (
            "ValueError: User-specified max_model_len (8192) is greater than the derived max_model_len "
            "(max_position_embeddings=2048.0 or model_max_length=None in model's config.json).",
            "Lower --max-model-len from 8192 to 2048.",
        ),
        (
            "ValueError: Total number of attention heads (40) must be divisible by tensor parallel size (6).",
            "Set --tensor-parallel-size to 4 instead of 6: it must divide 40 attention heads.",
        ),
        (
            "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (969). Each decode sequence requires "
            "one Mamba cache block, so CUDA graph capture cannot proceed.",
            "Lower --max-num-seqs from 1024 to 969.",
        ),
        (
            "vllm serve: error: unrecognized arguments: --max-model-length 8192",
            "Replace --max-model-length with --max-model-len.",
        ),
        ("vllm: error: unrecognized arguments: --enable-metrics", "Remove --enable-metrics."),
        (
            "api_server.py: error: unrecognized arguments: /models/qwen",
            "/models/qwen is neither an option nor the value of one.",
        ),
        (
            '  Warning  Failed  18m  kubelet  Failed to pull image "registry.example/vllm:v1": rpc error: '
            "code = Unknown desc = failed to register layer: write /opt/lib.so: no space left on device",
            "The image does not fit on the node's disk",
        ),
        (
            "vllm serve: error: argument --dtype: invalid choice: 'floatt16' (choose from 'auto', 'float16')",
            "Replace --dtype floatt16 with --dtype float16.",
        ),
        (
            "RuntimeError: Insufficient space in /dev/shm for shared-memory allocation: 160 MiB required, 64 MiB free. "
            "Increase /dev/shm (e.g. --shm-size or --ipc=host).",
            "Raise /dev/shm by at least 96 MiB: 160 MiB are needed, 64 MiB are free.",
        ),
        (  # the end of a log does not say what the memory was for
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total capacity of "
            "22.06 GiB of which 1.40 GiB is free.",
            "1.96 GiB were needed, and 1.40 GiB of 22.06 GiB were free; this text does not show the phase.",
        ),
        (f"{FULL.format('load_model')}", "Use a larger GPU, a higher --tensor-parallel-size or a quantized checkpoint"),
        (f"{FULL.format('profile_run')}", "Lower --max-num-batched-tokens"),
        (
            f"{FULL.format('capture_model')}",
            "by 0.04: the weights and the KV cache fitted",
        ),
        (f"{FULL.format('_dummy_sampler_run')}", "the sampler's warm-up did not"),
        (f"{FULL.format('execute_model')}", "vLLM had started"),
        (
            f"(EngineCore pid=7) INFO 07-02 11:20:31 [kv_cache_utils.py:1] GPU KV cache size: 8,176 tokens\n{FULL}",
            "Lower --gpu-memory-utilization by 0.04",
        ),
        (
            "vllm: error: unrecognized arguments: --temperature 0.8 --max-model-length 8192",
            "Remove --temperature: it is a parameter of requests (default: --override-generation-config "
            "'{\"temperature\": …}'). Replace --max-model-length with --max-model-len.",
        ),
        (
            "ValueError: Free memory on device cuda:0 (0.41/79.18 GiB) on startup is less than desired GPU memory "
            "utilization (0.85, 67.3 GiB).",
            "End the other process on the GPU: 0.41 of 79.18 GiB are free",
        ),
        (
            "api_server.py: error: argument --compilation-config/-O: 1 validation error for CompilationConfig\n"
            "  Input should be an object [type=dataclass_type, input_value=2, input_type=int]",
            "Write -O2 as one word, or give --compilation-config an object",
        ),
        ("ValueError: LoRA rank 48 is greater than max_lora_rank 16.", "Set --max-lora-rank 64"),
        ("OSError: [Errno 30] Read-only file system: '/models/hub'", "/models/hub is on a read-only mount"),
        ("PermissionError: [Errno 13] Permission denied: '/.triton'", "set HOME to a writable folder"),
        ("PermissionError: [Errno 13] Permission denied: '/models/hub'", "Set securityContext.fsGroup"),
        (
            "ValueError: ('Quantization scheme is not supported for ', 'the current GPU. Min capability: 89. ', "
            "'Current capability: 80.')",
            "compute capability 8.9 or more: this one has 8.0.",
        ),
        (
            "AttributeError: Model FalconForCausalLM does not support BitsAndBytes quantization yet.",
            "Remove --quantization bitsandbytes: vLLM's class of this model, FalconForCausalLM, does not support",
        ),
        (
            "vllm serve: error: the following arguments are required: model_tag",
            "Write the model as the first word after `vllm serve`",
        ),
        (
            "  Value error, `limit_mm_per_prompt` is only supported for multimodal models. [type=value_error]\n"
            "ValidationError: 1 validation error for ModelConfig",
            "Remove --limit-mm-per-prompt",
        ),
        (
            "ValueError: speculative_draft_tensor_parallel_size=4 cannot be other value than 1 or target model "
            "tensor_parallel_size",
            "Set draft_tensor_parallel_size to 1 in --speculative-config, instead of 4.",
        ),
        (
            "ValueError: num_speculative_tokens must be provided with speculative model unless the draft model config "
            "contains an n_predict parameter.",
            'Add "num_speculative_tokens" to --speculative-config',
        ),
        (
            '  File "/opt/vllm/vllm/model_executor/model_loader/weight_utils.py", line 192, in get_quant_config\n'
            "ValueError: Cannot find the config file for gptq",
            "Remove --quantization gptq",
        ),
        ("ValueError: GGUF model with architecture exaone is not supported yet.", "the model's safetensors checkpoint"),
        (
            "INFO 07-02 11:20:31 [api_server.py:1043] vLLM API server version 0.9.1\n"
            "ValueError: Model architectures ['SeedForCausalLM'] are not supported for now.",
            "Use a newer image of vLLM than 0.9.1: this one has no class SeedForCausalLM",
        ),
        (
            "ValueError: The checkpoint you are trying to load has model type `seed2` but Transformers does not "
            "recognize this architecture.",
            "its transformers does not know the model type seed2.",
        ),
        (
            "requests.exceptions.ProxyError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries "
            "exceeded (Caused by ProxyError('Unable to connect to proxy', OSError('Tunnel connection failed: 407')))",
            "The proxy of HTTPS_PROXY",
        ),
        (
            "  Warning  FailedScheduling  3m  default-scheduler  0/5 nodes are available: 2 Insufficient "
            "nvidia.com/gpu, 3 node(s) had untolerated taint {example.com/gpu: true}.",
            "No node has enough free nvidia.com/gpu",
        ),
        (
            "  Warning  FailedScheduling  3m  default-scheduler  0/5 nodes are available: 2 Insufficient "
            "nvidia.com/gpu, 3 node(s) had untolerated taint {example.com/gpu: true}.",
            "add a toleration for the taint example.com/gpu.",
        ),
        (
            "  Warning  FailedScheduling  3m  default-scheduler  0/5 nodes are available: 5 node(s) didn't match Pod's "
            "node affinity/selector.",
            "Compare nodeSelector and nodeAffinity",
        ),
        (
            '  Warning  Failed  2m  kubelet  Failed to pull image "example.com/vllm:0.99": rpc error: code = NotFound '
            'desc = failed to resolve reference "example.com/vllm:0.99": example.com/vllm:0.99: not found',
            "The registry has no example.com/vllm:0.99: correct its name or tag.",
        ),
        (
            '  Warning  Failed  2m  kubelet  Failed to pull image "example.com/vllm:1": failed to authorize: 401 '
            "Unauthorized",
            "The registry denies example.com/vllm:1: give the Pod imagePullSecrets",
        ),
        (
            '  Warning  Failed  2m  kubelet  Failed to pull image "example.com/vllm:1": no match for platform in '
            "manifest: not found",
            "example.com/vllm:1 has no variant for the node's architecture",
        ),
        (
            'Error: failed to create containerd task: exec: "vllm": executable file not found in $PATH: unknown',
            "The image has no vllm. `command` replaces the image's entrypoint",
        ),
        (
            'Error: failed to create containerd task: exec: "vllm serve": executable file not found in $PATH: unknown',
            "Write each word of 'vllm serve' as an element",
        ),
        (
            "WARNING 07-02 11:20:31 [ray_utils.py:352] Tensor parallel size (16) exceeds available GPUs (8).",
            "Raise the GPU limit (nvidia.com/gpu) from 8 to 16, or lower --tensor-parallel-size from 16 to 8.",
        ),
    ],
)
def test_the_remedy_has_the_values_of_the_log(text: str, remedy: str) -> None:
    assert remedy in str(_one(text).remedy)


KILLED = """\
apiVersion: v1
kind: Pod
metadata: {name: qwen}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.21.0
      args: [--model=Qwen/Qwen3-8B, --max-model-len=8192]
      resources: {limits: {nvidia.com/gpu: 1, memory: 3Gi}}
"""


def test_the_remedy_has_the_values_of_the_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pod.yaml").write_text(KILLED)
    (tmp_path / "log.txt").write_text("INFO 09-30 18:28:40 vLLM API server version 0.21.0\nKilled\n")

    assert main(["diagnose", str(tmp_path / "log.txt"), str(tmp_path / "pod.yaml")]) == 0

    out = " ".join(capsys.readouterr().out.split())
    assert re.search(r"Raise the memory limit from 3Gi to \d+Gi: vLLM needs about 4\.\d GiB", out)
    assert "room for the checkpoint in the page cache" in out


LOADING = """\
INFO 09-30 18:00:10 [api_server.py:1896] vLLM API server version 0.21.0
(EngineCore pid=9) INFO 09-30 18:00:40 [gpu_model_runner.py:2338] Starting to load model Qwen/Qwen3-8B...
(EngineCore pid=9) INFO 09-30 {end} [weight_utils.py:392] Loading safetensors checkpoint shards: 40% Completed
(APIServer pid=1) INFO 09-30 {end} [launcher.py:110] Shutting down FastAPI HTTP server.
"""


@pytest.mark.parametrize(
    ("end", "probes", "cause"),
    [
        ("18:04:50", "startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 30}", "probe-killed"),
        ("18:01:30", "startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 30}", None),
        ("18:01:25", "livenessProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 9}", "probe-killed"),
        ("18:04:50", "readinessProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 30}", None),
    ],
)
def test_sigterm_at_the_end_of_a_probes_window_is_the_probes(
    end: str, probes: str, cause: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pod.yaml").write_text(KILLED + f"      {probes}\n")
    (tmp_path / "log.txt").write_text(LOADING.format(end=end))

    assert main(["diagnose", "--format", "json", str(tmp_path / "log.txt"), str(tmp_path / "pod.yaml")]) == 0
    (found,) = json.loads(capsys.readouterr().out)["results"]

    assert (found["cause"], found["certainty"]) == (cause, cause and "likely")
    assert cause is None or f"the {probes.partition(':')[0]} waits" in found["remedy"]


def test_a_manifest_among_the_inputs_is_that_of_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pod.yaml").write_text(KILLED)
    (tmp_path / "log.txt").write_text(CACHE.replace("SHARE", "0.8"))
    log, pod = str(tmp_path / "log.txt"), str(tmp_path / "pod.yaml")

    def printed(*words: str) -> str:
        main(["diagnose", *words])
        return capsys.readouterr().out

    assert printed(log, pod) == printed(pod, log) == printed(log, "--manifest", pod)
    assert "this text shows no cause" in " ".join(printed(pod).split())


def test_of_a_long_log_on_standard_input_the_end_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "INFO 09-30 18:00:10 [core.py:1] waiting\n" * 50 + "ValueError: No available memory for the cache blocks.\n"
    monkeypatch.setattr("podfit.cli.diagnose.MAX_INPUT_BYTES", 1000)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    assert main(["diagnose", "--format", "json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["cause"] == "no-kv-blocks"


def test_two_manifests_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pod.yaml").write_text(KILLED)
    (tmp_path / "log.txt").write_text(CACHE)
    pod = str(tmp_path / "pod.yaml")

    assert main(["diagnose", str(tmp_path / "log.txt"), pod, "--manifest", pod]) == 2
    assert "error: 2 manifests" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("end", "is_open"),
    [
        ("died unexpectedly, shutting down executor.", True),
        ("died unexpectedly (exit code: -9), shutting down.", False),
    ],
    ids=["no exit code", "SIGKILL"],
)
def test_a_worker_that_died_without_an_exit_code_may_have_died_of_something_else(end: str, is_open: bool) -> None:
    """A full /dev/shm and a crash print the same line."""
    text = f"ERROR 04-22 15:14:04 [multiproc_executor.py:135] Worker proc VllmWorker-1 {end}\n"
    assert ("does not say what ended the process" in str(_one(text).remedy)) is is_open
