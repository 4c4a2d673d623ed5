"""`podfit lsp` in a real editor: Neovim, headless."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "llama-8b-with-131072-tokens.yaml"


@pytest.mark.skipif(shutil.which("nvim") is None, reason="no Neovim: apt-get install neovim")
def test_diagnostics_hover_lens_and_a_quick_fix(tmp_path: Path) -> None:
    path = tmp_path / EXAMPLE.name
    shutil.copy(EXAMPLE, path)
    own = {"PODFIT_FILE": str(path), "PODFIT_PYTHON": sys.executable, "HOME": str(tmp_path)}

    done = subprocess.run(
        ["nvim", "--headless", "--clean", "-u", "NONE", "-c", f"luafile {HERE / 'neovim.lua'}"],
        env=os.environ | own,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert ["kv-cache-too-small", 19, 1] in got["diagnostics"]
    assert "| weights |" in got["hover"]
    assert got["lens"].startswith("does not fit: ")
    assert any(title.startswith("podfit: --max-model-len ") for title in got["actions"])
    assert "kv-cache-too-small" not in got["after"]
