"""A container → the argv that vLLM will get, and the field each word came from; None if it does not run vLLM.

Read the modules in this order. `start` walks from the container to the command. `reading` has the container's own
words, `expand` what the kubelet does to them (`$(VAR)`). `script` follows what a shell does, and `entry` knows what an
argv starts. The others:

- of a shell: `tree` (the syntax), `state` (variables, files, how statements end), `parameter` (words)
- also of a shell: `assign`, `builtin`, `redirect`, `handed` (scripts that one shell passes to another), `dialect` (what
  only bash reads)
- programs around vLLM: `python` (which interpreter runs), `changes` (installed Python code that a command replaces),
  `images` (what an image runs by itself), `telling` (programs known by name), `kserve`
- text: `word` (text that is known in part), `edit` (writes changed words back)
"""

from podfit.vllm.command.start import resolve
from podfit.vllm.command.tree import ALL_WORK, WorkLimit
from podfit.vllm.command.word import Command, Word

__all__ = ["ALL_WORK", "Command", "Word", "WorkLimit", "resolve"]
