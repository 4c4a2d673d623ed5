"""The loop of docs/skills/podfit/SKILL.md, followed without a human: check, fix, follow a suggestion, repeat."""

from __future__ import annotations

from pathlib import Path

import pytest

from podfit.cli.lsp import reader
from podfit.lsp.document import CheckedText, check_text

ROOT = Path(__file__).parents[2]
ROUNDS = 5
"""As the skill says."""
BROKEN = (
    "argument-string-not-split/bad.yaml", "conflicting-flags/bad-experts.yaml", "entrypoint-repeated/bad.yaml",
    "gpu-count-mismatch/bad.yaml", "gpu-lacks-dtype/bad.yaml", "gpu-memory-exceeded/bad-70b-on-two.yaml",
    "invalid-environment/bad-backend-of-another-gpu.yaml", "invalid-flag-value/bad-list.yaml",
    "kv-cache-too-small/bad.yaml", "kv-cache-too-small/bad-cache-memory.yaml", "liveness-probe-kills-startup/bad.yaml",
    "memory-limit-too-low/bad.yaml", "model-newer-than-release/bad.yaml", "offload-exceeds-limit/bad.yaml",
    "probe-wrong-port/bad-path-and-window.yaml", "quantization-mismatch/bad.yaml", "removed-flag/bad-script.yaml",
    "shm-missing/bad.yaml", "tensor-parallel-indivisible/bad.yaml", "unknown-flag/bad-slip.yaml",
)  # fmt: skip
"""Twenty manifests of tests/rules that are denied, each for another reason."""


def serious(checked: CheckedText) -> list[str]:
    """The rules of findings that are denied or likely."""
    return [item.finding.rule for item in checked.items if item.finding.level != "advice"]


@pytest.mark.parametrize("name", BROKEN)
def test_the_loop_ends_with_a_manifest_that_starts(name: str) -> None:
    path, own = str(ROOT / "tests" / "rules" / name), reader()
    settings = own.settings_of(path)
    checked = check_text(path, Path(path).read_text(), settings, own)
    assert "denied" in [item.finding.level for item in checked.items]

    for _ in range(ROUNDS):
        open_items = [item for item in checked.items if item.finding.level != "advice"]
        repair = next((repair for item in open_items for repair in checked.repairs_of(item)), None)
        if repair is not None:
            checked = check_text(path, repair.text, settings, own)

    assert not serious(checked)


def test_the_skill_names_tools_and_commands_that_exist() -> None:
    from podfit.cli import COMMANDS
    from podfit.mcp.tools import TOOLS

    text = (ROOT / "docs" / "skills" / "podfit" / "SKILL.md").read_text()

    assert text.startswith("---\nname: podfit\ndescription: ")
    for name in ("check", "fix", "plan", "explain", "diagnose"):
        assert name in TOOLS
        assert name in COMMANDS
        assert f"`{name}`" in text
