"""A container's own words, as Kubernetes passes them, and the `Command` for a server that is found among them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from podfit.base.lazy import cached_property, regex
from podfit.kube.path import FieldPath, mapping
from podfit.kube.workload import JSON, CachedObject, Container, Workload, as_list
from podfit.vllm.command import expand, images, kserve, python, word
from podfit.vllm.command.entry import Serve
from podfit.vllm.command.expand import MAX_EXPANDED_LENGTH, Environment, string
from podfit.vllm.command.state import contents
from podfit.vllm.command.tree import ALL_WORK, WorkLimit
from podfit.vllm.command.word import Change, Command, Value, Word, mystery, reason_of, text_of, texts_of

_TEMPLATE = regex(r"\{\{[^{}]{0,200}\}\}")
_SHELL_ONLY = regex(r"\$\{[A-Za-z_][^${}]{0,200}\}|(?<![\w$])\$[A-Za-z_]\w*")
_ITEMS = 512
"""Items of `command` and of `args` that are read. People write at most a few hundred; an object has room for half a
million."""
_SHORT = 64
"""Characters up to which a word is always read."""
_CHARACTERS = MAX_EXPANDED_LENGTH
"""Characters that are read of all longer words together."""
_READS = regex(r"-[A-Za-z]{0,8}c[A-Za-z]{0,8}")
"""Option after which a shell takes the next word as its script."""


class Reading:
    """One container: its image, `command`, `args`, environment and files."""

    def __init__(
        self, workload: Workload, container: Container, config_maps: Mapping[str, JSON], budget: WorkLimit | None,
        cached_object: CachedObject | None = None,
    ) -> None:  # fmt: skip
        self.workload = workload
        self.budget = budget or WorkLimit(ALL_WORK)
        """The work that reading the object may cost."""
        self.cached_object = cached_object or CachedObject(workload.object)
        self.container = container
        self.config_maps = config_maps
        self.image = string(container.spec.get("image"))
        self.characters = 0
        """Number of characters read of `command` and `args`, without those of short words."""
        self.long: list[tuple[FieldPath, int]] = []
        """Words that are too long for a process, and their bytes."""
        self.unread_reason = ""
        """Why some of the words were not read, for people."""
        self.cut = False
        """`command` or `args` has more items than are read."""
        self.before = ""
        """The word before the present one."""
        self.commands = self.expanded_items("command")
        self.args = self.expanded_items("args")
        given = "command" if self.commands else "args" if self.args else "image"
        self.path = container.place(given) if container.spec.get(given) else container.path
        self.script_path = self.path
        self.script: tuple[str, str] | None = None
        """The shell's name and its script, if the script is in the manifest literally."""

    @cached_property
    def env(self) -> Environment:
        """The container's variables, read lazily: most sidecars never need them."""
        return expand.environment(self.workload, self.container, self.config_maps)

    @cached_property
    def files(self) -> dict[str, str]:
        """Path in the container → text, of the known ConfigMaps that are mounted."""
        return expand.mounts(self.workload, self.container, self.config_maps)

    def expanded_items(self, name: str) -> list[Value]:
        """The first `_ITEMS` of `command` or `args`, expanded as Kubernetes does; notes in `cut` if there are more."""
        if self.container.spec.get(name) is None:
            return []
        place = self.container.place(name)
        # A synthetic container's words have one field together, unless that field is such a list itself.
        is_one_field = name in self.container.places and place.parts[-1:] != (name,)
        all_items = expand.items(self.container.spec.get(name))
        texts = [item if isinstance(item, str) else string(item) for item in all_items[:_ITEMS]]
        paths = [place] * len(texts) if is_one_field else place.items(len(texts))
        inherited = self.container.inherited_args if name == "args" else 0
        if inherited:  # the first args are not the container's own
            paths = [*[self.container.place("runtime")] * inherited, *paths]
        values = [self._value(text, path) for text, path in zip(texts, paths, strict=False)]
        if len(all_items) > _ITEMS:
            self.unread_reason = f"it has {len(all_items):,} words, and the first {_ITEMS} are read"
            self.cut = True
        return values

    def _value(self, text: str, path: FieldPath) -> Value:
        """Expand one item of `command` or `args`, and record if it is too long or not read."""
        if len(text) > _SHORT:
            may_be_long = 4 * len(text) >= MAX_EXPANDED_LENGTH  # a character has at most 4 bytes
            size = len(text.encode(errors="replace")) if may_be_long else 0
            if size >= MAX_EXPANDED_LENGTH:
                self.long.append((path, size))
            if _READS.fullmatch(self.before) is None:  # a script has a limit of its own
                if self.characters + len(text) > _CHARACTERS:
                    self.unread_reason = f"its words are longer than the {_CHARACTERS:,} characters that are read"
                    return mystery(text[:_SHORT], f"a word of {len(text):,} characters is not read", path)
                self.characters += len(text)
        self.before = text
        if "$" not in text:
            return (Word(text, path),)
        value = expand.expanded(text, self.env, path)
        why = reason_of(value)
        if why in (expand.TOO_LONG, expand.TOO_MUCH):
            self.unread_reason = str(why)
        if why == expand.TOO_LONG:
            self.long.append((path, MAX_EXPANDED_LENGTH))
        return value

    def file(self, path: str) -> str | None:
        """The text of a mounted file; None if unknown."""
        if not self.files or not path:
            return None
        return contents(self.files, path)

    def serve(
        self, started: Serve, env: Mapping[str, Value], *, shell_exec: bool | None = None, guessed: str | None = None,
        complete: bool = True, decided: Iterable[str] = (), file: Callable[[str], str | None] | None = None,
        argv: Sequence[Value] = (), moved: bool = False,
    ) -> Command | None:  # fmt: skip
        """The command for a server that was found among the words; None if it does not run vLLM after all. `env`: the
        server's variables. `shell_exec`: whether it replaces the shell that starts it; None without a shell. `guessed`,
        `complete`, `decided`: as in `Command`. `file`: returns the text of a file, None if unknown; None: only mounted
        files are known. `argv`: all words, with the programs that start it. `moved`: a script has left its folder."""
        words: Sequence[Value] | None = started.words
        if started.program == "dynamo serve":
            if not images.named_vllm(self.image):
                return None
            complete = False  # its other arguments are in a configuration file or in DYN_DEPLOYMENT_CONFIG
        if started.program == "huggingfaceserver":
            words = kserve.huggingface(started.words, env, self.workload.model_uri)
        elif self.workload.model_uri is not None:
            words = kserve.substitute(started.words, self.workload.model_uri)
        if words is None:
            return None
        texts = texts_of(words)
        omni = "--omni" in texts or started.program.startswith("vllm-omni") or images.is_omni(self.image)
        text = "\n".join(texts)  # one check of all texts lets most commands skip what follows
        if "$" in text or "{{" in text:
            words = [_without_placeholders(value, shell=shell_exec is not None) for value in words]
        known_env = env.known if isinstance(env, Environment) else word.all_known(env)
        leading = argv[: max(len(argv) - len(started.words), 0)]
        return Command(
            started.entry, word.words_of(words, self.script_path), self.path, known_env, frozenset(decided),
            shell=shell_exec is not None, script_path=self.script_path if shell_exec is not None else None,
            exec=shell_exec is not False, program=started.program, slip=started.slip, guessed=guessed,
            own_flags=started.own_flags or omni, other=images.OMNI if omni else None,
            config=self.config(texts, file or self.file) if "--config" in text else {},
            complete=complete and not self.cut and "args" not in self.workload.completes,
            changes=self._changes(started, env, leading, moved=moved), long=tuple(self.long),
        )  # fmt: skip

    def _changes(
        self, started: Serve, env: Mapping[str, Value], leading: Sequence[Value], *, moved: bool
    ) -> frozenset[Change]:
        """The changes to the Python code by the variables, the words before vLLM's (`leading`) and the folder."""
        changed = {python.by_variables(env)}
        if leading and python.is_another(leading, self.image, self._mounted()):
            changed.add("vllm")
        if started.program.startswith("vllm.") or "-m" in texts_of(leading):
            folder = string(self.container.spec.get("workingDir"))
            if moved:
                changed.add("code")
            elif folder:
                changed.add(python.by_folder(folder, self._mounted()))
        return frozenset([change for change in changed if change is not None])

    def _mounted(self) -> list[str]:
        """The mount paths of the container's volumes."""
        mounts = as_list(self.container.spec.get("volumeMounts"))
        return [path for mount in mounts if (path := string(mapping(mount).get("mountPath")))]

    def config(self, words: Sequence[str], file: Callable[[str], str | None]) -> dict[str, str]:
        """Path → text of the files that `--config` names; `file` returns the text of a file, None if unknown."""
        texts = {}
        for argument, following in itertools.pairwise([*words, ""]):
            flag, equals, path = argument.partition("=")
            path = path if equals else following
            text = file(path) if flag == "--config" else None
            if text is not None:
                texts[path] = text
        return texts


def _without_placeholders(value: Value, *, shell: bool) -> Value:
    """The value of an argument: unknown if a template fills in a part of it later, or if only a
    shell would expand it and there is none. `shell`: a shell has read it."""
    if reason_of(value) is not None:
        return value
    text = text_of(value)
    match = _TEMPLATE.search(text) if "{{" in text else None
    if match is not None:
        return mystery(text, f"{match[0]} is filled in by a template", value[0].path)
    match = _SHELL_ONLY.search(text) if "$" in text and not shell else None
    if match is not None:
        return mystery(text, f"{match[0]} {word.UNEXPANDED}", value[0].path)
    return value
