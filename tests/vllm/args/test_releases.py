"""Releases that a user describes: in a policy, and with `podfit releases`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from podfit import cli
from podfit.cli.support import read_parser
from podfit.evaluation import policy
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import PolicyError
from podfit.kube.path import FieldPath
from podfit.vllm.args import parse, taught
from podfit.vllm.args.flags import Releases, builtin
from podfit.vllm.args.taught import TaughtError
from podfit.vllm.command import Command, Word
from podfit.vllm.facts import Facts
from podfit.vllm.release import Release, is_official

NEW = """
apiVersion: podfit.dev/v1alpha1
kind: Policy
metadata: {name: ours}
spec:
  releases:
    images:
      "registry.example/ml/vllm:stable-*": 0.20.2
      "registry.example/ml/vllm:*": 0.34.0
    known:
      0.34.0:
        like: 0.33.0
        removed: [--monokernel, watchdog_config]
        options:
        - {flags: [--brand-new, -bn], type: "optional[human_int]", default: 3}
        - {dest: max_num_seqs, flags: [--max-num-seqs], type: str, choices: [few, many]}
"""


def pod(image: str, *args: str) -> dict[str, object]:
    """A Pod that serves with these flags."""
    container = {"name": "vllm", "image": image, "command": ["vllm", "serve", "m", *args]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}


def found(image: str, *args: str, text: str = NEW) -> dict[str, str]:
    """Rule → mode, of what a policy with these releases finds about flags."""
    report = lint(pod(image, *args), policy.load([("p.yaml", text)]), Facts(), where="check")
    assert not report.errors
    about = ("unknown-flag", "removed-flag", "invalid-flag-value")
    return {judged.rule: judged.mode for judged in report.findings if judged.rule in about}


def test_a_policy_says_which_release_an_image_holds() -> None:
    """The first pattern that fits counts, and its word is certain."""
    ours = "registry.example/ml/vllm"
    assert found(f"{ours}:stable-3", "--swap-space", "4") == {"removed-flag": "deny"}
    assert found(f"{ours}:stable-3@sha256:00", "--swap-space", "4") == {"removed-flag": "deny"}
    assert found(f"{ours}:edge", "--swap-space", "4") == {"removed-flag": "deny"}
    assert found("registry.example/other/vllm:edge", "--swap-space", "4") == {"removed-flag": "warn"}


def test_a_policy_teaches_a_release() -> None:
    """Its new options are read as described, its removed ones are unknown; the other releases stay as they were."""
    new = "vllm/vllm-openai:v0.34.0"
    assert found(new, "--brand-new", "8k", "--max-num-seqs", "many", "-bn", "None") == {}
    assert found(new, "--max-num-seqs", "8") == {"invalid-flag-value": "deny"}
    assert found(new, "--monokernel") == {"removed-flag": "deny"}
    assert found(new, "--watchdog-config", "{}") == {"removed-flag": "deny"}
    assert found("vllm/vllm-openai:v0.33.0", "--brand-new", "8k") == {"removed-flag": "deny"}  # it comes later
    assert found("vllm/vllm-openai:v0.33.0", "--max-num-seqs", "8") == {}
    assert found("vllm/vllm-openai:v0.35.0", "--nonsense") == {"unknown-flag": "warn"}  # still newer than the table


def test_a_taught_release_has_its_own_defaults() -> None:
    """As every other."""
    table = taught.teach_release(
        builtin(), "0.34.0", None, [], {"port": {"flags": ["--port"], "type": "int", "default": 9}}
    )
    command = Command("serve", (Word("m", FieldPath()),), FieldPath())
    assert parse(command, Release(0, 34), Releases((), lambda: table)).get("port") == 9
    assert parse(command, Release(0, 33), Releases((), lambda: table)).get("port") == 8000
    assert parse(command, Release(0, 34)).get("port") == 8000


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('stable-*": 0.20.2', 'x": latest', "p.yaml:8: spec.releases.images[registry.example/ml/vllm:x]: 'latest' is"),
        ("like: 0.33.0", "like: 0.32.9", "p.yaml:12: spec.releases.known[0.34.0].like: '0.32.9' is not in the"),
        ("--monokernel", "--mono", "p.yaml:13: spec.releases.known[0.34.0].removed[0]: '--mono' can't be removed"),
        ("      0.34.0:", "      new:", "p.yaml:11: spec.releases.known.new: 'new' is not a vLLM release such as"),
        ("flags: [--brand-new, -bn]", "nargs: 1", "spec.releases.known[0.34.0].options[0]: an option needs flags"),
        ("known:", "unknown:", "spec.releases.unknown: unknown field"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_policys_releases_is_told(old: str, new: str, problem: str) -> None:
    """Its place, and what would be right."""
    with pytest.raises(PolicyError) as error:
        policy.load([("p.yaml", NEW.replace(old, new, 1))])
    assert problem in str(error.value)


def test_a_release_that_is_taught_changes_the_policys_version() -> None:
    """Two policies of one version decide alike."""
    versions = [policy.load([("p", text)]).version for text in (NEW, NEW, NEW.replace("default: 3", "default: 4"))]
    assert versions[0] == versions[1] != versions[2]


def test_the_difference_of_two_releases_makes_one_of_the_other() -> None:
    """For every pair of neighbours in the table."""
    table = builtin()
    for old, new in zip(table.releases, table.releases[1:], strict=False):
        gone, changed = taught.options_difference(table.rows(new), table.rows(old))
        again = taught.teach_release(table, "0.99.0", str(old), gone, changed)
        assert again.rows(Release(0, 99)) == table.rows(new)


def test_a_release_can_not_be_like_one_that_nobody_knows() -> None:
    """Nor can it lack what the other lacks."""
    with pytest.raises(TaughtError):
        taught.teach_release(builtin(), "0.99.0", "0.98.0", [], {})


# ------------------------------------------------------------------------------------------------- podfit releases


class _Pairs(argparse.BooleanOptionalAction):
    """As vLLM 0.33's EnableDisableAction: `--disable-x` switches `--enable-x` off."""

    def __init__(self, option_strings: list[str], **more: Any) -> None:
        super().__init__(option_strings, **more)
        first = option_strings[0]
        other = {"--en": first.replace("--enable-", "--disable-"), "--di": first.replace("--disable-", "--enable-")}
        self.option_strings = [*self.option_strings, other[first[:4]]]


def _parse_type(inner: Callable[[str], Any]) -> Callable[[str], Any]:
    """As vLLM's engine/arg_utils.py parse_type."""

    def _parse_type(text: str) -> object:
        return inner(text)

    return _parse_type


def _optional_type(inner: Callable[[str], Any]) -> Callable[[str], Any]:
    def _optional_type(text: str) -> object:
        return inner(text)

    return _optional_type


def human_readable_int(text: str) -> int:
    """A stand-in for vLLM's."""
    return int(text)


class KVTransferConfig:
    """A stand-in for vLLM's."""


def _of_a_class(text: str, cls: type = KVTransferConfig) -> object:
    return cls


_of_a_class.__name__ = "parse_dataclass"


def test_the_script_reads_a_parser_as_the_table_has_it() -> None:
    """Types behind wrappers, choices, switches and what switches them off."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model_tag", nargs="?", type=str)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--enable-x", action=_Pairs)
    parser.add_argument("--disable-y", action=_Pairs)
    parser.add_argument("--z", "-z", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--len", type=_optional_type(human_readable_int))
    parser.add_argument("--json", type=_parse_type(json.loads), default=object())
    parser.add_argument("--config-of-a-class", type=_optional_type(_of_a_class))
    parser.add_argument("--many", nargs="+", choices=["a", "b"])
    rows = taught.rows(read_parser.option_rows(parser))
    switch = {"nargs": 0, "action": "_Pairs"}
    assert rows == {
        "model_tag": {"nargs": "?", "type": "str"},
        "port": {"flags": ["--port"], "type": "int", "default": 8000},
        "enable_x": {**switch, "flags": ["--enable-x"], "negative": ["--no-enable-x", "--disable-x"]},
        "disable_y": {**switch, "flags": ["--disable-y"], "negative": ["--no-disable-y", "--enable-y"]},
        "z": {
            "flags": ["--z", "-z"], "negative": ["--no-z"], "nargs": 0, "default": True,
            "action": "BooleanOptionalAction",
        },
        "quiet": {"flags": ["--quiet"], "nargs": 0, "default": False, "action": "_StoreTrueAction"},
        "len": {"flags": ["--len"], "type": "optional[human_int]"},
        "json": {"flags": ["--json"], "type": "json"},
        "config_of_a_class": {"flags": ["--config-of-a-class"], "type": "optional[json[KVTransferConfig]]"},
        "many": {"flags": ["--many"], "nargs": "+", "choices": ["a", "b"]},
    }  # fmt: skip


@pytest.fixture(name="read_out")
def _read_out(tmp_path: Path) -> Path:
    """What the script would print of a release that is like the newest one, but for three options."""
    table = builtin()
    rows = {dest: dict(row) for dest, row in table.rows(table.releases[-1]).items()}
    del rows["monokernel"]
    rows["port"]["default"] = 9000
    rows["brand_new"] = {"flags": ["--brand-new"], "type": "int"}
    options = [{"dest": dest, **row, "negative_flags": row.get("negative")} for dest, row in rows.items()]
    for option in options:
        option["entrypoints"] = [option.pop("only")] if "only" in option else ["serve", "module"]
    file = tmp_path / "0.34.0.json"
    file.write_text(json.dumps({"version": "0.34.0", "options": options}))
    return file


def test_releases_add_prints_a_policy(read_out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what is different from the newest release before it."""
    assert cli.main(["releases", "add", str(read_out)]) == 0
    text = capsys.readouterr().out
    said = yaml.safe_load(text)["spec"]["releases"]["known"]["0.34.0"]
    assert (said["like"], said["removed"]) == ("0.33.0", ["monokernel"])
    assert [option["flags"] for option in said["options"]] == [["--port"], ["--brand-new"]]
    assert found("vllm/vllm-openai:v0.34.0", "--brand-new", "1", text=text) == {}
    assert found("vllm/vllm-openai:v0.34.0", "--monokernel", text=text) == {"removed-flag": "deny"}


def test_releases_add_into_a_policy_keeps_what_stands_there(read_out: Path, tmp_path: Path) -> None:
    """Comments and all."""
    file = tmp_path / "policy.yaml"
    file.write_text(
        "# ours\napiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata:\n  name: ours  # a name\n"
        "spec:\n  rules:\n    unpinned-image:\n      mode: deny\n"
    )
    assert cli.main(["releases", "add", str(read_out), "--into", str(file)]) == 0
    text = file.read_text()
    assert text.startswith("# ours\n")
    assert "# a name" in text
    loaded = policy.load([("p", text)])
    assert loaded.base.settings["unpinned-image"].mode == "deny"
    assert loaded.releases.table.releases[-1] == Release(0, 34)
    assert cli.main(["releases", "add", str(read_out), "--into", str(file)]) == 0
    assert file.read_text() == text


def test_releases_list_has_what_is_taught(read_out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Behind the built-in ones."""
    file = tmp_path / "policy.yaml"
    assert cli.main(["releases", "add", str(read_out), "--into", str(file)]) == 0
    assert cli.main(["releases", "list", "--policy", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("0.33.0")
    assert lines[-1].startswith("0.34.0")


def test_the_script_is_one_that_runs_without_podfit(capsys: pytest.CaptureFixture[str]) -> None:
    """Without vLLM all it can say is that vLLM is missing."""
    assert cli.main(["releases", "script"]) == 0
    script = capsys.readouterr().out
    done = subprocess.run([sys.executable, "-I", "-"], input=script, capture_output=True, text=True, check=False)
    assert "No module named 'vllm'" in done.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no", "not JSON"),
        ("[]", "version: expected a vLLM release"),
        ('{"version": "new", "options": []}', "version: expected a vLLM release"),
        ('{"version": "0.34.0"}', "options: expected a list of options"),
        ('{"version": "0.34.0", "options": [{"flags": ["--x"]}]}', "options: expected a list of options"),
    ],
)
def test_a_file_that_says_no_release_is_exit_3(
    text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, with what was expected."""
    file = tmp_path / "x.json"
    file.write_text(text)
    assert cli.main(["releases", "add", str(file)]) == 3
    assert problem in capsys.readouterr().err


def test_a_vouched_image_need_not_be_vllms_own() -> None:
    """That is what the policy's word is for."""
    assert not is_official("registry.example/ml/vllm:stable-3")
