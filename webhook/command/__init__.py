"""A container → the argv that vLLM will get, and the field each word came from. None: it does not run vLLM.

`expand` does what the kubelet does (`$(VAR)`), `script`, `parameter` and `state` what a shell does; `entry` and
`images` know what runs vLLM, `kserve` how KServe hands arguments over, and `start` walks through them.
"""

from __future__ import annotations

from webhook.command.start import resolve
from webhook.command.word import Command, Word

__all__ = ["Command", "Word", "resolve"]
