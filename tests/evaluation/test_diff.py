"""`podfit diff` and `podfit plan` with two releases: what changes, and when that fails a merge request."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from podfit.cli import main

ROOT = Path(__file__).parents[2]
GOOD = (ROOT / "examples" / "good.yaml").read_text()
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "diff.json").read_text())
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def diff(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """`podfit diff` of two texts → exit code and output."""

    def run(old: str, new: str, *argv: str) -> tuple[int, str]:
        for name, text in (("old.yaml", old), ("new.yaml", new)):
            (tmp_path / name).write_text(text)
        code = main(["diff", *argv, str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml")])
        return code, capsys.readouterr().out

    return run


def changes(out: str) -> list[dict[str, Any]]:
    """The JSON's changes, valid by the schema."""
    tree = json.loads(out)
    jsonschema.validate(tree, SCHEMA)
    found: list[dict[str, Any]] = tree["changes"]
    return found


def test_nothing_changes_between_two_equal_sides(diff: Run) -> None:
    code, out = diff(GOOD, GOOD)
    assert (code, out) == (0, "1 vLLM container: 1 unchanged\n")
    assert changes(diff(GOOD, GOOD, "--format", "json")[1])[0]["state"] == "unchanged"


def test_a_longer_context_on_a_smaller_card_is_newly_denied(diff: Run) -> None:
    new = GOOD.replace('"16384"', '"65536"').replace("NVIDIA-A100-SXM4-80GB", "NVIDIA-L4")
    code, out = diff(GOOD, new)

    assert code == 1
    assert 'Deployment chat/llama-8b-good, container "vllm": DENIED NOW\n' in out
    assert "  verdict       fits → does not fit\n" in out
    assert "  --max-model-len             16,384 → 65,536\n" in out
    assert "+ denied  kv-cache-too-small: one request of 65,536 tokens" in out
    assert out.endswith("1 vLLM container: 1 changed; 1 new denial\n")


def test_the_way_back_is_no_failure(diff: Run) -> None:
    old = GOOD.replace('"16384"', '"65536"').replace("NVIDIA-A100-SXM4-80GB", "NVIDIA-L4")
    code, out = diff(old, GOOD)

    assert code == 0
    assert "- denied  kv-cache-too-small" in out


def test_what_was_denied_before_is_not_new_although_its_numbers_are(diff: Run) -> None:
    old = GOOD.replace('"16384"', '"65536"').replace("NVIDIA-A100-SXM4-80GB", "NVIDIA-L4")
    code, out = diff(old, old.replace('"65536"', '"80000"'), "--format", "json")

    (change,) = changes(out)
    assert code == 0
    assert change["state"] == "changed"
    assert not change["appeared"]
    assert not change["gone"]


def test_a_warning_that_becomes_a_denial_is_new(diff: Run, tmp_path: Path) -> None:
    old = GOOD.replace('"16384"', '"65536"').replace("NVIDIA-A100-SXM4-80GB", "NVIDIA-L4")
    idle = old.replace("replicas: 2", "replicas: 0")  # a warning: nothing starts now
    assert diff(idle, old)[0] == 1


def test_before_enforcing_a_new_denial_is_shown_and_fails_nothing(diff: Run) -> None:
    new = GOOD.replace('"16384"', '"65536"').replace("NVIDIA-A100-SXM4-80GB", "NVIDIA-L4")
    code, out = diff(GOOD, new, "--policy", "observe")

    assert code == 0
    assert "DENIED NOW" not in out
    assert "+ denied if enforced  kv-cache-too-small: one request of 65,536 tokens" in out
    assert out.endswith("1 vLLM container: 1 changed; 1 new denial if enforced\n")
    (change,) = changes(diff(GOOD, new, "--policy", "observe", "--format", "json")[1])
    assert not change["newly_denied"]
    assert ("kv-cache-too-small", "audit", "deny") in {
        (one["rule"], one["mode"], one["would"]) for one in change["appeared"]
    }
    assert "denied if enforced" in diff(GOOD, new, "--policy", "observe", "--format", "markdown")[1]


def test_another_image_moves_defaults_and_flags(diff: Run) -> None:
    (change,) = changes(diff(GOOD.replace("v0.27.1", "v0.19.0"), GOOD, "--format", "json")[1])

    assert change["vllm"] == {"before": "0.19.0", "after": "0.27.1"}
    assert change["settings"]["gpu_memory_utilization"] == {"before": 0.9, "after": 0.92}
    assert "max_num_partial_prefills" in change["dropped_arguments"]
    assert change["gpu"]["budget"]["after"]["likely"] > change["gpu"]["budget"]["before"]["likely"]
    assert change["numbers"]["kv_cache_tokens"]["before"] != change["numbers"]["kv_cache_tokens"]["after"]


def test_flags_without_a_default_are_in_both_parsers(diff: Run) -> None:
    """If only `defaults` are set, nothing is known of an option such as --api-key, which every release has."""
    (change,) = changes(diff(GOOD.replace("v0.27.1", "v0.19.0"), GOOD, "--format", "json")[1])

    assert "device_ids" in change["new_arguments"]
    assert not {"api_key", "revision", "chat_template"} & {*change["new_arguments"], *change["dropped_arguments"]}


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("", "your command  --gpu-memory-utilization 0.9 → 0.92"),
        ("--max-num-partial-prefills=2", "your command  --max-num-partial-prefills is not an option of vLLM 0.27.1;"),
        ("--device-ids=0", "your command  --device-ids is not an option of vLLM 0.19.0;"),
    ],
)
def test_the_first_line_says_what_changes_for_the_command(diff: Run, flag: str, said: str) -> None:
    new = GOOD.replace('"16384"', f'"16384", "{flag}"') if flag else GOOD
    (_, second, *_) = diff(new.replace("v0.27.1", "v0.19.0"), new)[1].splitlines()

    assert second.strip().startswith(said)


def test_a_release_that_changes_nothing_for_the_command_says_so(diff: Run) -> None:
    lines = diff(GOOD.replace("v0.27.1", "v0.27.0").replace("16384", "8192"), GOOD.replace("16384", "8192"))[1]

    assert "no argument and no resolved value changes" in lines


def test_a_workload_that_comes_and_one_that_goes_are_told(diff: Run) -> None:
    other = GOOD.replace("llama-8b-good", "another")
    code, out = diff(GOOD, other, "--format", "json")

    assert code == 0
    assert [(one["object"]["name"], one["state"]) for one in changes(out)] == [
        ("another", "added"),
        ("llama-8b-good", "removed"),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.11.1", "0.11.2"),
        ("0.11.2", "0.12.0"),
        ("0.12.0", "0.13.0"),
        ("0.14.1", "0.15.1"),
        ("0.22.0", "0.22.1"),
        ("0.25.1", "0.26.0"),
        ("0.32.0", "0.33.0"),
    ],
)
def test_a_release_that_changes_nothing_for_the_command_is_no_change(diff: Run, old: str, new: str) -> None:
    before, after = (GOOD.replace("v0.27.1", f"v{release}") for release in (old, new))

    (change,) = changes(diff(before, after, "--format", "json")[1])

    assert change["vllm"] == {"before": old, "after": new}
    assert change["state"] == "unchanged"
    assert f"vLLM {old} → {new}: no argument and no resolved value changes\n" in diff(before, after)[1]


@pytest.mark.parametrize("tag", ["v0.99.0", "nightly"])
def test_a_release_that_was_not_read_is_a_change(diff: Run, tag: str) -> None:
    """What changes with it is unknown."""
    (change,) = changes(diff(GOOD, GOOD.replace("v0.27.1", tag), "--format", "json")[1])

    assert change["state"] == "changed"


@pytest.mark.parametrize(
    ("old", "new", "flag", "listed"),
    [
        ("0.14.1", "0.15.1", "", False),
        ("0.14.1", "0.15.1", "--data-parallel-size=2", True),
        ("0.28.0", "0.29.0", "", False),
        ("0.28.0", "0.29.0", "--decode-context-parallel-size=2", True),
    ],
)
def test_a_default_counts_if_the_command_uses_the_option(
    diff: Run, old: str, new: str, flag: str, listed: bool
) -> None:
    text = GOOD.replace('"16384"', f'"16384", {flag}') if flag else GOOD
    (change,) = changes(diff(*(text.replace("v0.27.1", f"v{tag}") for tag in (old, new)), "--format", "json")[1])

    assert bool({"api_server_count", "dcp_comm_backend"} & change["defaults"].keys()) is listed


VARIABLES = [
    ("0.14.1", "0.15.1", "VLLM_ATTENTION_BACKEND", "FLASHINFER"),
    ("0.15.1", "0.16.0", "VLLM_TORCH_PROFILER_DIR", "/tmp/traces"),
    ("0.22.1", "0.23.0", "VLLM_RPC_TIMEOUT", "100000"),
    ("0.23.0", "0.24.0", "VLLM_USE_FLASHINFER_MOE_FP8", "1"),
    ("0.31.0", "0.32.0", "VLLM_ENGINE_ITERATION_TIMEOUT_S", "100"),
]


@pytest.mark.parametrize(("old", "new", "name", "value"), VARIABLES)
def test_a_variable_that_the_release_no_longer_has_is_named(
    diff: Run, old: str, new: str, name: str, value: str
) -> None:
    text = GOOD.replace("          ports:", f'          env: [{{name: {name}, value: "{value}"}}]\n          ports:')
    before, after = (text.replace("v0.27.1", f"v{tag}") for tag in (old, new))

    assert f"{name} is not a variable of vLLM {new}" in diff(before, after)[1]
    assert f"{name} is not a variable of vLLM {new}" in diff(before, after, "--format", "markdown")[1].replace("\\", "")
    (change,) = changes(diff(before, after, "--format", "json")[1])
    assert (change["dropped_variables"], change["state"]) == ([name], "changed")


def test_a_key_of_a_json_argument_that_the_release_no_longer_has_is_named(diff: Run) -> None:
    text = GOOD.replace('"16384"', '"16384", --compilation-config, \'{"use_inductor": true}\'')
    before, after = (text.replace("v0.27.1", f"v{tag}") for tag in ("0.11.2", "0.12.0"))

    assert "--compilation-config.use_inductor is not an option of vLLM 0.12.0" in diff(before, after)[1]


def test_a_value_that_only_its_type_changes_is_the_same(diff: Run) -> None:
    text = GOOD.replace('"16384"', '"16384", --swap-space, "4"')
    (change,) = changes(
        diff(*(text.replace("v0.27.1", f"v{tag}") for tag in ("0.17.1", "0.18.0")), "--format", "json")[1]
    )

    assert not change["arguments"]


def test_markdown_has_no_row_whose_sides_read_the_same(diff: Run) -> None:
    for old, new in (("0.13.0", "0.14.1"), ("0.20.2", "0.21.0"), ("0.22.1", "0.23.0")):
        out = diff(*(GOOD.replace("v0.27.1", f"v{tag}") for tag in (old, new)), "--format", "markdown")[1]
        cells = [line.strip("| ").split(" | ") for line in out.splitlines() if line.startswith("| ")]
        same = [row[0] for row in cells if len(row) == 3 and row[1] == row[2].strip("*")]
        assert {*same} <= {"---", "verdict"}, (old, new, same)


def test_a_container_that_is_renamed_is_the_same_one(diff: Run) -> None:
    (change,) = changes(diff(GOOD, GOOD.replace("- name: vllm", "- name: server"), "--format", "json")[1])
    assert change["state"] == "unchanged"


def test_markdown_is_a_table_for_a_comment(diff: Run) -> None:
    new = GOOD.replace('"16384"', '"65536"').replace("NVIDIA-A100-SXM4-80GB", "NVIDIA-L4")
    out = diff(GOOD, new, "--format", "markdown")[1]

    assert out.startswith("### podfit: 1 vLLM container: 1 changed; 1 new denial\n")
    assert "| --max-model-len | 16,384 | **65,536** |\n" in out
    assert "- 🔴 new, denied: `kv-cache-too-small` (GPU memory): one request" in out


def test_keys_are_stars(diff: Run) -> None:
    key = "sk-" + "abcdefghij0123456789"
    new = GOOD.replace('"16384"]', f'"16384", --api-key, {key}]')
    for output in ("text", "json", "markdown"):
        out = diff(GOOD, new, "--format", output)[1]
        assert key not in out
        assert "*******" in out.replace("\\", "")  # escaped in Markdown


def test_one_side_may_be_standard_input(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new.yaml").write_text(GOOD)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))

    assert main(["diff", "-", str(tmp_path / "new.yaml")]) == 0
    assert "1 unchanged" in capsys.readouterr().out
    assert main(["diff", "-", "-"]) == 2


def test_what_can_not_be_read_is_exit_3(diff: Run) -> None:
    assert diff(GOOD, "a: [")[0] == 3


# ── The same command line under two releases ─────────────────────────────────────────────────────────────────────────


def test_two_releases_are_planned_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    line = ("--", "vllm", "serve", "Qwen/Qwen3-14B", "--max-num-partial-prefills", "2")
    both = ("--vllm-version", "0.19.0", "--vllm-version", "0.27.1")

    assert main(["plan", "--gpu", "h100", *both, *line]) == 1
    out = capsys.readouterr().out
    assert "  --gpu-memory-utilization    0.9 → 0.92  (default)\n" in out
    assert "+ denied  removed-flag" in out
    assert "2 gone; in this command: --max-num-partial-prefills" in out

    assert main(["plan", "--gpu", "h100", "--format", "json", *both, *line]) == 1
    (change,) = changes(capsys.readouterr().out)
    assert change["numbers"]["kv_cache_tokens"]["after"] > change["numbers"]["kv_cache_tokens"]["before"]
    assert not change["arguments"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--vllm-version", "0.1.0") * 3, "two releases can be compared"),
        (("--format", "markdown"), "give --vllm-version twice"),
        (("--vllm-version", "new"), "not a version such as 0.27.1"),
    ],
)
def test_what_can_not_be_compared_is_said(capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], said: str) -> None:
    assert main(["plan", "--gpu", "l4", *argv, "--", "vllm", "serve", "Qwen/Qwen3-8B"]) == 2
    assert said in capsys.readouterr().err


def test_a_model_alone_is_planned_for_one_release(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "Qwen/Qwen3-8B", "--vllm-version", "0.19.0", "--vllm-version", "0.27.1"]) == 2
    assert "-- vllm serve Qwen/Qwen3-8B" in capsys.readouterr().err


def test_a_side_that_is_not_there_is_no_report_of_what_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old.yaml").write_text(GOOD)

    assert main(["diff", str(tmp_path / "old.yaml"), "nosuch"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: nosuch: ")


def test_what_stays_is_told_in_a_line(diff: Run) -> None:
    out = diff(GOOD, GOOD.replace('"16384"', '"16384", --seed=1'))[1]

    assert "\nGPU memory of one GPU: the same\n" in out
    assert "\nhost memory: the same\n" in out
    assert "GPU KV cache size" not in out


def test_the_certain_end_of_what_is_left_is_a_maximum(diff: Run) -> None:
    out = diff(GOOD.replace("v0.27.1", "v0.19.0"), GOOD)[1]
    rows = [line for line in out.splitlines() if line.startswith("  KV cache memory ")]

    assert ["   at most " in row for row in rows] == [True]


def test_the_place_of_the_graphs_and_their_size_have_names_of_their_own(diff: Run) -> None:
    old, new = (GOOD.replace("v0.27.1", release) for release in ("v0.19.0", "v0.21.0"))
    out = diff(old, new, "--format", "markdown")[1]

    assert "| place of CUDA graphs | outside the budget | **inside the budget** |\n" in out
    assert out.count("| CUDA graphs |") <= 1
