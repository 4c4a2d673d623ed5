"""What a manifest holds reaches no terminal as a command, in no output of any command."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from podfit.base.printable import clean, one_line, shortened
from tests.conftest import GOOD_POD
from tests.test_canaries import outputs, ran

ESCAPES = "\x1b[2J\x07\x7f\x9b31m\u202e\u2028\u200b\ufeff"
"""Clears a screen, rings, deletes, colors, turns and breaks a line."""


def _hostile() -> dict[str, Any]:
    pod = deepcopy(GOOD_POD)
    pod["metadata"] = {
        "name": f"n{ESCAPES}",
        "namespace": f"s{ESCAPES}",
        "annotations": {"podfit.dev/ignore.unknown-flag": f"why{ESCAPES}", f"k{ESCAPES}": f"v{ESCAPES}"},
    }
    container = pod["spec"]["containers"][0]
    container |= {"name": f"c{ESCAPES}", "image": f"vllm/vllm-openai:v0.27.1{ESCAPES}"}
    container["args"] = ["--model", f"Qwen/Qwen3-8B{ESCAPES}", f"--no-such-{ESCAPES}", "--max-num-seqs", ESCAPES]
    container["env"] = [{"name": f"A{ESCAPES}", "value": ESCAPES}, {"name": "VLLM_LOGGING_LEVEL", "value": ESCAPES}]
    container["readinessProbe"] = {"httpGet": {"path": f"/{ESCAPES}", "port": f"p{ESCAPES}"}}
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": f"NVIDIA-L4{ESCAPES}"}
    return pod


def _inert(text: str) -> bool:
    return all(one.isprintable() or one == "\n" for one in text)


def test_no_output_has_control_characters(tmp_path: Path) -> None:
    folder = tmp_path / f"d{ESCAPES}"
    folder.mkdir()
    pod = _hostile()
    told = dict(outputs(folder, pod, None, yaml.safe_dump(pod), "none"))

    assert {name for name, out in told.items() if not _inert(out)} == set()
    assert any("no-such-" in out for out in told.values())


@pytest.mark.parametrize(
    "text",
    [
        f"a: 1\nkind: {ESCAPES}\n\x1b",
        f"apiVersion: v1\nkind: Pod{ESCAPES}\nmetadata: {{name: x}}\n",
        f'"{ESCAPES}"'.encode("unicode_escape").decode(),
        "{apiVersion: v1, kind: [",
    ],
)
@pytest.mark.parametrize("command", ["check", "fix", "explain", "diff"])
def test_what_can_not_be_read_is_told_without_control_characters(text: str, command: str, tmp_path: Path) -> None:
    file = tmp_path / f"{ESCAPES}.yaml"
    file.write_text(text)

    assert _inert(ran(command, *[str(file)] * (2 if command == "diff" else 1)))
    assert _inert(ran("policy", "lint", str(file)))


def test_a_line_is_clean_and_short() -> None:
    assert clean("a\x1b\u202e\nb é漢") == "a  \nb é漢"
    assert one_line(" a\n\tb\x00c ") == "a b c"
    assert shortened("x" * 1000) == "x" * 1000
    assert shortened("a" * 600 + "b" * 600) == "a" * 500 + "… (1,200 characters) …" + "b" * 500
