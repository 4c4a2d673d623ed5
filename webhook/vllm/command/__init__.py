"""A container → the argv that vLLM will get, and the field each word came from. None: it does not run vLLM.

`reading` is a container's own words and `expand` what the kubelet does to them (`$(VAR)`); `script` walks through what
a shell does, with its rooms `tree`, `branch`, `condition`, `redirect`, `assign`, `builtin`, `output` and `parameter`
(with `arithmetic` and `transform`), on a `state`; `changes` tells what a command may do to installed Python code, and
`python` whose Python runs; `entry` (with `apart`), `images` and `telling` know what runs vLLM, `kserve` how KServe
hands arguments over, and `start` walks through them. `edit` writes other words in their place.
"""

from webhook.vllm.command.start import resolve
from webhook.vllm.command.tree import ALL_WORK, WorkLimit
from webhook.vllm.command.word import Command, Word

__all__ = ["ALL_WORK", "Command", "Word", "WorkLimit", "resolve"]
