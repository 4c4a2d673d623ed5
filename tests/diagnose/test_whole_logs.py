"""Each excerpt inside a whole log of a start-up, other processes between its lines, has the same cause; without its
evidence the log shows none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain, zip_longest

import pytest

from podfit.diagnose import diagnose
from tests.diagnose.test_diagnose import LOGS

AFTER = """\
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File "/opt/vllm/vllm/v1/engine/utils.py", line 729, in launch_core_engines
(APIServer pid=1)     wait_for_engine_startup(
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
[rank0]:[W702 08:40:00 ProcessGroupNCCL.cpp:1476] Warning: destroy_process_group() was not called before program exit
/usr/lib/python3.12/multiprocessing/resource_tracker.py:279: UserWarning: There appear to be 1 leaked shared_memory \
objects to clean up at shutdown
"""
"""What the processes print that only learn that another one failed."""


def _before(lines: int) -> Iterator[str]:
    """A start-up up to the loading of the weights."""
    yield "(APIServer pid=1) INFO 07-02 08:00:00 [api_server.py:1805] vLLM API server version 0.21.0"
    yield "(APIServer pid=1) INFO 07-02 08:00:01 [utils.py:233] non-default args: {'model': 'org/model'}"
    for number in range(lines - 3):
        yield f"(EngineCore_DP0 pid=90) DEBUG 07-02 08:01:{number % 60:02d} [core.py:88] waiting, {number} s"
    yield "(EngineCore_DP0 pid=90) INFO 07-02 08:20:00 [gpu_model_runner.py:2338] Starting to load model org/model..."


def _whole(excerpt: str, lines: int) -> str:
    """The excerpt in a log of so many lines before it, and after each of its lines one of another process."""
    others = (f"(Worker_TP7 pid=97) INFO 07-02 08:20:01 [loader.py:12] shard {number}" for number in range(10_000))
    inner = chain.from_iterable(zip(excerpt.splitlines(), others, strict=False))
    return "\n".join([*_before(lines), *inner]) + "\n" + AFTER


FAILED_STARTS = [
    case
    for case in LOGS
    if (found := diagnose(str(case.values[1]))[0]).certainty == "certain"
    and found.signature
    and found.signature.channel == "log"
    and not found.signature.running
    and "vLLM API server version" not in str(case.values[1])
    and len(str(case.values[1]).splitlines()) <= 3
]
"""Excerpts of at most three lines, as people paste them: what the lines between them show is in themselves."""


@pytest.mark.parametrize("lines", [50, 400])
@pytest.mark.parametrize(("cause", "excerpt"), FAILED_STARTS)
def test_a_cause_in_a_whole_log_is_the_same(cause: str, excerpt: str, lines: int) -> None:
    (found,) = diagnose(_whole(excerpt, lines))

    assert found.cause is not None
    assert found.cause.id == cause


@pytest.mark.parametrize("lines", [50, 2000])
def test_a_whole_log_without_the_evidence_shows_no_cause_and_no_health(lines: int) -> None:
    (found,) = diagnose(_whole("", lines))

    assert (found.cause, found.healthy) == (None, False)
    assert any("Engine core initialization failed" in line for line in found.evidence)


def test_of_several_replicas_in_one_text_the_one_that_fails_is_diagnosed() -> None:
    good = ["INFO 07-02 08:00:00 [api_server.py:1805] vLLM API server version 0.21.0", *["INFO: Waiting."] * 3,
            "INFO:     Application startup complete."]  # fmt: skip
    bad = [good[0], "ValueError: Free memory on device (2.0/79.1 GiB) on startup is less than desired GPU memory "
           "utilization (0.9, 71.2 GiB)."]  # fmt: skip
    pairs = zip_longest(bad, good, fillvalue="INFO: Waiting.")
    text = "\n".join(f"[pod/vllm-{number}/vllm] {line}" for pair in pairs for number, line in enumerate(pair))

    (found,) = diagnose(text)

    assert found.cause is not None
    assert found.cause.id == "gpu-memory-taken"


def _cri(line: str) -> str:
    return f"2026-07-02T08:20:00.123456789Z stderr F {line}"


def _loki(line: str) -> str:
    return json.dumps({"labels": {"pod": "vllm-0", "container": "vllm"}, "line": line, "timestamp": "1"})


def _colored(line: str) -> str:
    source, _, rest = line.partition(") ")
    return f"\x1b[0;36m{source})\x1b[0;0m \x1b[31m{rest}\x1b[0m" if line.startswith("(") else line


@pytest.mark.parametrize(
    "wrap", [_cri, _loki, _colored, lambda line: line + "\r"], ids=["CRI", "Loki", "colors", "Windows"]
)
@pytest.mark.parametrize(("cause", "excerpt"), FAILED_STARTS[::3])
def test_a_wrapped_whole_log_has_the_same_cause(cause: str, excerpt: str, wrap: Callable[[str], str]) -> None:
    (found,) = diagnose("\n".join(wrap(line) for line in _whole(excerpt, 40).splitlines()))

    assert (found.cause and found.cause.id) == cause


@pytest.mark.parametrize("excerpt", [case.values[1] for case in FAILED_STARTS], ids=[case.id for case in FAILED_STARTS])
def test_a_whole_log_without_its_evidence_is_certain_of_nothing(excerpt: str) -> None:
    text = _whole(excerpt, 50)
    (whole,) = diagnose(text)

    (found,) = diagnose("\n".join(line for line in text.splitlines() if line.strip() not in whole.evidence))

    assert not found.healthy
    assert found.certainty != "certain"


CHAINED = [
    "ERROR 04-02 10:11:12 [core.py:1110] TimeoutError",
    "ERROR 04-02 10:11:12 [core.py:1110] ",
    "ERROR 04-02 10:11:12 [core.py:1110] The above exception was the direct cause of the following exception:",
    "ERROR 04-02 10:11:12 [core.py:1110] ",
    "ERROR 04-02 10:11:12 [core.py:1110] TimeoutError: RPC call to execute_model timed out.",
]
"""An unknown error that is the reason of a known one."""


@pytest.mark.parametrize(("lines", "cause"), [(CHAINED, "engine-stalled"), (CHAINED[:1] + CHAINED[-1:], None)])
def test_an_unknown_error_hides_a_symptom_unless_it_is_its_reason(lines: list[str], cause: str | None) -> None:
    (found,) = diagnose("\n".join(lines))

    assert (found.cause and found.cause.id) == cause


FRAME = '(Worker pid=8)   File "/opt/vllm/vllm/{}", line 8, in {}'


@pytest.mark.parametrize(
    ("innermost", "cause"),
    [
        ("model_executor/layers/quantization/quark/quark.py", "gpu-unsupported"),
        ("v1/attention/backends/tree_attn.py", "attention-backend-unfit"),
        ("v1/worker/gpu_model_runner.py", None),
    ],
)
def test_the_last_frame_counts_not_those_above_it(innermost: str, cause: str | None) -> None:
    frames = [
        FRAME.format("model_executor/layers/quantization/fp8.py", "apply"),
        FRAME.format("v1/attention/backends/flash_attn.py", "forward"),
        FRAME.format(innermost, "choose"),
    ]
    lines = ["(Worker pid=8) Traceback (most recent call last):", *frames, "(Worker pid=8) NotImplementedError: not so"]

    (found,) = diagnose("\n".join(lines))

    assert (found.cause and found.cause.id, found.certainty) == (cause, "likely" if cause else None)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("", "no-gpu"),
        ("Error 803: system has unsupported display driver / cuda driver combination", "driver-libraries-shadowed"),
        ("Error 804: forward compatibility was attempted on non supported HW", "driver-too-old"),
        ("Error 802: system not yet initialized", "gpu-fabric-not-ready"),
    ],
)
def test_that_no_device_was_found_is_explained_by_any_other_sighting(reason: str, cause: str) -> None:
    (found,) = diagnose(
        "INFO 04-02 10:11:10 [__init__.py:239] No platform detected, vLLM is running on UnspecifiedPlatform\n"
        f"/opt/torch/cuda/__init__.py:174: UserWarning: CUDA initialization: {reason}\n"
        "RuntimeError: Failed to infer device type, please set `VLLM_LOGGING_LEVEL=DEBUG`"
    )

    assert (found.cause and found.cause.id, found.certainty) == (cause, "likely")
