"""The walk from a container to vLLM's command line: the command decides first, then the image."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from podfit.base.lazy import regex
from podfit.kube.path import FieldPath, mapping
from podfit.kube.workload import JSON, CachedObject, Container, Workload
from podfit.vllm.command import changes, dialect, entry, handed, images, kserve, telling
from podfit.vllm.command.entry import Join, Script, Serve, Unknown
from podfit.vllm.command.expand import items
from podfit.vllm.command.reading import Reading
from podfit.vllm.command.tree import GiveUp, WorkLimit, is_at_end, source, unclosed
from podfit.vllm.command.word import Command, Piece, Slip, Value, known, literal, origin_of, text_of, words_of
from podfit.vllm.gpu import resource

if TYPE_CHECKING:
    from tree_sitter import Node

    from podfit.vllm.command.script import Shell

_MODEL_VARIABLES = ("VLLM_MODEL", "MODEL_ID", "MODEL", "MODEL_NAME", "HF_MODEL_ID", "MODEL_PATH", "VLLM_MODEL_NAME")
"""Names of the variable for the model in wrappers around vLLM; the first that is set counts."""

_FOLLOWS = regex(r"--headless\b|\.sh[\"']?\s+(--)?worker\b")
"""Text of a script that may run as a rank that does not serve: a follower of vLLM's own, or a Ray worker."""
_RAY = regex(r"\bray\s+start\b")
_LEADS = regex(r"--head\b")
_STATEMENT = regex(r"[^\n;&|]+")
_SERVER = regex(r"\bvllm\s+serve\b|\bvllm\.entrypoints\.[\w.]{0,100}api_server\b")

_SHEBANG = regex(r"#!\S*?(?:env\s+(?:-S\s+)?)?(\w*sh)\b")
"""The first line of a script that names its shell."""
_SHEBANG_E = regex(r"#!\S*sh\s+-\w*e")
"""The first line of a script that exits at the first command that fails."""
_LINE = regex(r"(\S*/)?(vllm|python[\d.]*|env|(ba|da|a|z|k)?sh)\s")
"""A program's name and more words in the same word."""
_SIBLINGS, _EXAMINED = 8, 64
"""How many other containers may be the leader: it is among the first, if there is one. And how many are examined,
including init containers."""
_LONGEST_PROGRAM = 4096
"""Bytes of a program's path, at most (Linux PATH_MAX)."""
_SERVERS = 4
"""Servers of one script that are followed; each one only matters if those before it fail."""
_SPLITS = 2
"""How many nested `sh -c` are split: `sh -c sh -c vllm …`."""


def resolve(
    workload: Workload,
    container: Container,
    config_maps: Mapping[str, JSON] | None = None,
    budget: WorkLimit | None = None,
    cached_object: CachedObject | None = None,
) -> Command | None:
    """How `container` starts vLLM, or None if it does not run vLLM.

    `config_maps`: name → ConfigMap of the same file or namespace, for `envFrom`, `configMapKeyRef`, `--config` and
    mounted scripts. `budget`: the work that all scripts of the object may cost. `cached_object`: the object, for a
    caller that checks all its containers.
    """
    return _Resolver(workload, container, config_maps or {}, budget, cached_object).resolve()


class _LastServer(Exception):  # noqa: N818 - a way out of the walk through a script
    """Ends the walk: the last server that matters was found."""


@dataclass
class _ScriptFacts:
    """The other facts about a script, besides its servers."""

    joined: bool = False
    guess: Command | None = None
    installed: str = ""
    """The release of vLLM that it certainly installed last, if it names one."""
    texts: list[str] = field(default_factory=list)
    """The scripts, each as it was started."""
    servers: list[Command] = field(default_factory=list)
    """The servers that it starts one after the other, each because the one before has failed."""

    def may_follow(self, sh: Shell) -> bool:
        """True if the script may, on another branch, end in a program that does not serve."""
        follows = any(map(_follows, self.texts))
        return follows or (sh.branched and all(len(_SERVER.findall(text)) < 2 for text in self.texts))


def _may_serve(text: str) -> bool:
    """True if the script mentions a server, ignoring its quotes."""
    for sign in "'\"\\":
        text = text.replace(sign, "")
    return "vllm" in text and _SERVER.search(text) is not None


def _follows(text: str) -> bool:
    """True if the script has `--headless`, `run.sh worker`, or `ray start` without `--head` after it."""
    starts = (_RAY.split(item) for item in _STATEMENT.findall(text)) if "ray" in text else ()
    return any(len(parts) > 1 and not _LEADS.search(parts[-1]) for parts in starts) or bool(_FOLLOWS.search(text))


class _Resolver(Reading):
    splits = 0
    """How often `sh -c` had a script of one word, and the words after it were used instead."""
    scripted = False
    """True if a script was read, and not only the words of the command."""

    def resolve(self) -> Command | None:
        """The command that starts vLLM; None if none does. `Command.unread` if a limit ended the reading."""
        try:
            command = self._resolved()
        except GiveUp as why:
            command, self.unread_reason = None, str(why)
        if command is not None or not self.unread_reason:
            return command
        given = [item for name in ("command", "args") for item in items(self.container.spec.get(name))]
        return self._unread(self.unread_reason, " ".join([item for item in given if isinstance(item, str)]))

    def _resolved(self) -> Command | None:
        """The command, from `command` and `args` or the image's entrypoint; raises GiveUp at a limit."""
        given = self.commands or self.args
        if given and telling.CACHE_SERVER.fullmatch(text_of(given[0])[:_LONGEST_PROGRAM]):
            return None
        if self.commands:
            line = text_of(self.commands[0])
            if _LINE.match(line) and "\n" not in line.strip():
                # A whole command line in one word: no program has such a name, and the intention is clear.
                return self._unsplit(line)
            return self._started([*self.commands, *self.args])
        return self._without_command()

    def _unsplit(self, line: str) -> Command | None:
        """A command whose first item is several words."""
        path, words = self.commands[0][0].path, entry.split(line)
        command = self._started([*(literal(word, path) for word in words), *self.commands[1:], *self.args])
        why = "the whole command line is one word, and no program is called that"
        if command is None or command.unread:
            return command
        if not isinstance(self.container.spec.get("command"), list) or self.container.synthetic:
            return replace(command, guessed=why)  # in an operator's own field, which the operator may split
        why = f"{line!r} is one word: no shell splits it, and no program is called that"
        return replace(command, slip=Slip(line, tuple(words), why, path, unsplit=True))

    # ── no command ──

    def _without_command(self) -> Command | None:
        """The image's entrypoint with the args."""
        if self._rays():
            return self._worker(scripted=False)
        started = entry.start(self.args) if self.args else None
        runs = images.runs(self.image)
        if started is not None and not isinstance(started, Unknown):
            command = self._started(self.args)
            if command is None or runs not in ("serve", "module"):
                return command
            return replace(command, repeated=True, changes=command.changes - {"vllm"}, release="")  # the image's vLLM
        if runs == "other":
            return None
        if len(self.args) == 1 and runs != "serve" and " " in text_of(self.args[0]).strip():
            # A whole shell command in one word, for an entrypoint that runs it.
            line = text_of(self.args[0])
            if not line.lstrip().startswith("-"):
                self.script_path = self.args[0][0].path or self.path
                return self._script(line, [], None)
        if self.container.init and self.container.spec.get("restartPolicy") != "Always":
            return None  # an init container that exits; a sidecar serves
        if runs == "huggingface":
            return self.serve(Serve("module", "huggingfaceserver", tuple(self.args), own_flags=True), self.env)
        if runs in ("serve", "module"):
            old = runs == "module" or images.before_serve(self.image)
            words = tuple(self.args)
            if _repeats_serve(words, old=old):
                command = self.serve(Serve("serve", images.SERVE, words[1:]), self.env)
                return command and replace(command, repeated=True)
            program = Serve("module", images.MODULE, words) if old else Serve("serve", images.SERVE, words)
            return self.serve(program, self.env)
        if runs is None and images.named_vllm(self.image):
            return self._guess(self.args, f"the image's name, {self.image}, contains vLLM", complete=bool(self.args))
        if telling.looks_like_vllm(self.image, self.args) and (telling.names_model(self.args) or self.args):
            return self._guess(self.args, "the arguments are vLLM's")
        return None

    def _rays(self) -> bool:
        """True if it is a Ray node's own container, which gets `ray start` from KubeRay if it has no command."""
        if self.args or self.container.synthetic:
            return False
        first = self.container.path.parts[-2:] == ("containers", 0)
        groups = {"headGroupSpec", "workerGroupSpecs"} & set(self.workload.path.parts)
        return bool(groups) and first and images.named_vllm(self.image)

    # ── a command ──

    def _started(self, argv: Sequence[Value]) -> Command | None:
        """The command that a program starts, through wrappers and scripts."""
        started = entry.start(argv)
        if isinstance(started, Serve):
            set_here, removed = entry.assignments(argv), entry.removals(argv)
            env = {**_without(self.env, removed), **set_here} if set_here or removed else self.env
            command = self.serve(self._with_additional(started), env, decided=removed | set_here.keys(), argv=argv)
            if command is not None and (change := entry.brings(argv)) is not None:
                release = entry.release_brought(argv) if change == "vllm" else ""
                command = replace(command, changes=command.changes | {change}, release=release)
            return command
        if isinstance(started, Join):
            return self._worker(scripted=False)
        if isinstance(started, Script):
            text, positional = self._text(started), list(started.positional)
            if text is None:
                return self._opaque(text_of(started.file or literal("")), started.positional)
            if started.text is not None:
                self.script_path = origin_of(started.text) or self.path
                self.script = entry.shell_name(argv), text
            return self._script(
                text,
                positional,
                started.zero,
                shell_name=entry.shell_name(argv),
                inline=started.text is not None,
                errexit=started.errexit,
            )
        text = self.file(started.program)
        if text is not None and re.match(r"#!.*\b(ba|da|a|z|k)?sh\b", text):
            return self._script(text, list(started.words), literal(started.program), inline=False)
        self.unread_reason = started.reason or self.unread_reason
        return self._opaque(started.program, started.words)

    def _with_additional(self, started: Serve) -> Serve:
        """Add VLLM_ADDITIONAL_ARGS, which KServe's presets append to their command."""
        llm = self.workload.kind in ("LLMInferenceService", "LLMInferenceServiceConfig")
        if not llm or "command" not in self.container.places:
            return started
        return Serve(started.entry, started.program, (*started.words, *kserve.additional(self.env)))

    def _opaque(self, program: str, words: Sequence[Value]) -> Command | None:
        """A program that podfit does not know, in an image with vLLM in its name or with vLLM's arguments."""
        if self.container.init:
            return None
        if telling.looks_like_vllm(program, words):
            return self._guess(words, f"{program} takes vLLM's arguments", program=program)
        is_vllm_image = images.named_vllm(self.image) and images.runs(self.image) != "other"
        if is_vllm_image and telling.is_server_file(program):
            return self._guess(words, f"{program} runs in an image that says vLLM", program=program, complete=False)
        return None

    def _guess(self, words: Sequence[Value], why: str, program: str = "", *, complete: bool = True) -> Command | None:
        """The command if these words are vLLM's arguments, marked as guessed."""
        words = list(words)
        if words and text_of(words[0]) == "serve":
            words = words[1:]  # the image's entrypoint is `vllm`
        if not complete and not telling.names_model(words):
            name = next((n for n in _MODEL_VARIABLES if n in self.env), None)
            if name is not None and not (words and not text_of(words[0]).startswith("-")):
                value = self.env[name]
                words = [(*literal("--model=", value[0].path), *value), *words]
        by_flag = any(re.match(r"--model(=|$)", text_of(word)) for word in words)
        name = program or "the image's entrypoint"
        first = Serve("module" if by_flag else "serve", name, tuple(words), own_flags=True)
        return self.serve(first, self.env, guessed=why, complete=complete)

    # ── scripts ──

    def _text(self, started: Script) -> str | None:
        """The script's text, from the words or from its file; None if the file is unknown."""
        if started.text is not None:
            return "".join(self._raw(piece) for piece in started.text)
        file = known(started.file) if started.file is not None else None
        return self.file(file) if file is not None else None

    def _raw(self, piece: Piece) -> str:
        """An unknown `$(VAR)` is kept in the script, where the modules of the shell expand it."""
        if piece.unknown is None:
            return piece.text
        name = re.fullmatch(r"\$[({]?(\w+)[)}]?", piece.text)
        return f"$({name[1]})" if name else piece.text

    @property
    def _raw_script(self) -> Any:
        """The text of the field that contains the script."""
        return self.script_path.get(self.workload.object)

    def _script(
        self,
        text: str,
        positional: list[Value],
        zero: Value | None,
        *,
        shell_name: str = "",
        inline: bool = True,
        errexit: bool = False,
    ) -> Command | None:
        """The command of the first server that the script starts, else of what looks like vLLM; None without either."""
        observation = _ScriptFacts(texts=[text])
        self.scripted = True

        from podfit.vllm.command.script import shell  # here, because most containers have no script

        def visit(argv: list[Value], sh: Shell) -> None:
            self._visit(argv, sh, observation)

        runner = shell(self.env, self.files, visit, self.budget)
        runner.marks = inline and self._raw_script == text
        runner.state.positional = positional
        runner.state.zero = zero or runner.state.zero
        runner.state.errexit = errexit or _SHEBANG_E.match(text) is not None
        runner.doubt = dialect.doubt(text, _shell_of(text, shell_name))
        try:
            runner.run(text)
        except _LastServer:
            pass
        except GiveUp as why:
            if not observation.servers:
                self.unread_reason = str(why)  # for the case that its own words name vLLM, not the script's
                return observation.guess or self._unread(str(why), *observation.texts)
            observation.servers[-1] = replace(
                observation.servers[-1], survived=f"what the script does after it is not read: {why}"
            )
        if observation.servers:
            first, *then = observation.servers
            command = replace(first, script=text if runner.marks else None, unclosed=unclosed(text), then=tuple(then))
            return _with_lost(command, self._lost(text, positional, zero) if inline else ())
        if observation.guess is not None:
            return observation.guess
        if inline and zero is not None and len(text.split()) == 1:
            return self._split(text, positional, zero)
        return self._worker(scripted=True) if observation.joined else None

    def _unread(self, why: str, *texts: str) -> Command | None:
        """A container with a command that is too complex to read, but may start vLLM; None if it does not."""
        what = "script" if self.scripted else "command line"
        another = images.runs(self.image) == "other"
        named = (images.named_vllm(self.image) and not another) or any(map(_may_serve, texts))
        if self.container.init or not (named or (self._asks_for_a_device() and not another)):
            return None
        command = self.serve(
            Serve("serve", f"the {what}", (), own_flags=True),
            self.env,
            guessed=f"its {what} is too complex to be read",
            complete=False,
        )
        return command and replace(command, unread=why, script_path=self.script_path, unnamed=not named)

    def _asks_for_a_device(self) -> bool:
        """True if it requests an accelerator, by a resource, an annotation or a claim."""
        claims = mapping(self.container.spec.get("resources")).get("claims")
        return bool(claims or resource.requests(self.workload, self.container))

    def _split(self, text: str, positional: list[Value], zero: Value) -> Command | None:
        """`sh -c vllm serve MODEL`: the script is only its first word, but the intention is clear."""
        self.splits += 1
        if self.splits > _SPLITS:
            self.unread_reason = entry.TOO_MANY
            return None
        command = self._started([literal(text.strip(), self.script_path), zero, *positional])
        if command is None or command.entry == "worker":
            return None
        lost = words_of([zero, *positional], self.path)
        return replace(command, lost=lost, guessed=f"sh -c runs only {text.strip()!r}; the other words are lost")

    def _visit(self, argv: Sequence[Value], sh: Shell, observation: _ScriptFacts) -> None:
        """Visit one command of a script."""
        started = entry.start(argv)
        if isinstance(started, Serve):
            removed = entry.removals(argv)
            env = {**_without(sh.environment, removed), **entry.assignments(argv)}
            decided = sh.state.removed | removed | env.keys()
            guessed = "it is in a part of the script that may not run" if sh.conditional else None
            command = self.serve(
                started,
                env,
                shell_exec=sh.exec,
                guessed=guessed,
                decided=decided,
                file=sh.file,
                argv=argv,
                moved=sh.elsewhere,
            )
            if command is not None:
                if any(changes.CODE.search(path) for path in sh.state.files.keys() - self.files.keys()):
                    sh.changes.add("code")
                if (change := entry.brings(argv)) is not None:
                    sh.changes.add(change)
                if change == "vllm":
                    command = replace(command, release=entry.release_brought(argv))
                elif "vllm" in sh.changes and "vllm" not in command.changes:
                    command = replace(command, release=observation.installed)
                observation.servers.append(
                    replace(
                        command,
                        changes=command.changes | sh.changes,
                        exec_at=self._exec_at(sh),
                        unforked=self._unforked(sh),
                        cut_off=words_of(map(literal, sh.words_cut_off), self.script_path),
                        branched=sh.branched,
                        may_follow=observation.may_follow(sh),
                        survived="the script starts it in the background" if sh.background else sh.doubt,
                    )
                )
                if guessed or sh.background or len(observation.servers) == _SERVERS:
                    raise _LastServer
                sh.failed = True
        elif isinstance(started, Join):
            observation.joined = True
        elif isinstance(started, Script):
            text = started.text
            if text is None and started.file is not None:
                name = known(started.file)
                text = sh.contents(name) if name else None
            if text is not None:
                child = _child(sh, argv, started.positional, started.zero)
                child.state.errexit = started.errexit
                self._run_child(child, text, sh, observation, entry.shell_name(argv))
            elif started.file is not None:
                sh.changes.add("packages")
                self._note_guess(text_of(started.file), started.positional, sh, observation)
        elif started.program == entry.A_SHELL:
            if sh.stdin is not None:
                self._run_child(_child(sh, argv, started.words), sh.stdin, sh, observation, entry.shell_name(argv))
            else:
                sh.changes.add("packages")
        else:
            self.unread_reason = started.reason or self.unread_reason
            text = sh.contents(started.program) if started.program else None
            if text is not None and not started.program.endswith(".py"):
                child = _child(sh, argv, started.words, literal(started.program))
                self._run_child(child, text, sh, observation)
            else:
                if (change := changes.change_made_by(argv, text_of(sh.stdin or ()))) is not None:
                    sh.changes.add(change)
                    if change == "vllm":
                        observation.installed = "" if sh.conditional else entry.release_installed(argv)
                self._note_guess(started.program, started.words, sh, observation)

    def _run_child(self, child: Shell, script: Value, sh: Shell, observation: _ScriptFacts, name: str = "") -> None:
        """Follows a script that another one starts. It fails if the servers in it fail. `name`: its shell."""
        given = handed.to_child(script, sh.state)
        observation.texts.append(text_of(script))
        child.state.variables.update(given.variables)
        child.state.errexit = child.state.errexit or _SHEBANG_E.match(given.text) is not None
        child.doubt = sh.doubt or given.doubt or dialect.doubt(given.text, _shell_of(given.text, name))
        before = len(observation.servers)
        sh.failed = child.run(given.text) == "no" and len(observation.servers) > before
        sh.state.files, sh.followed = child.state.files, True

    def _unforked(self, sh: Shell) -> bool:
        """True if a shell may replace itself by this command, although the script has no `exec`."""
        last = sh.last
        if self.script is None or last is None or source(_name_of(last)) == "exec":
            return False
        return sh.exec or (self.script[0] == "bash" and is_at_end(last))

    def _exec_at(self, sh: Shell) -> int | None:
        """The position at which `exec` can be inserted into the script that the manifest shows; None if it shows
        none."""
        last = sh.last
        if self.script is None or last is None or not sh.marks:
            return None
        before = self.script[1].encode(errors="replace")[: _name_of(last).start_byte]
        return len(before.decode(errors="replace"))

    def _note_guess(self, program: str, words: Sequence[Value], sh: Shell, observation: _ScriptFacts) -> None:
        """Keep a program that looks like a wrapper of vLLM, if none was found before."""
        if observation.guess is None and not self.container.init and telling.looks_like_vllm(program, words):
            own = Serve("serve", program, tuple(words), own_flags=True)
            observation.guess = self.serve(
                own, sh.environment, shell_exec=sh.exec, guessed=f"{program} takes vLLM's arguments"
            )

    def _lost(self, text: str, positional: list[Value], zero: Value | None) -> tuple[Value, ...]:
        """Items after the script of `sh -c` that the script never uses."""
        uses_rest = re.search(r"\$[@*1-9]|\$\{[@*1-9]", text) is not None
        uses_zero = re.search(r"\$0|\$\{0", text) is not None
        lost: list[Value] = []
        if zero is not None and not uses_zero:
            name = text_of(zero)
            # By convention $0 is a name ("sh", "--", "_"); losing it changes nothing.
            if (positional and not uses_rest and name not in ("--", "_")) or re.match(r"--?\w", name):
                lost.append(zero)
        return (*lost, *positional) if not uses_rest else tuple(lost)

    # ── the commands that are found ──

    def _worker(self, *, scripted: bool) -> Command | None:
        """A Ray worker, if the cluster that it joins runs vLLM."""
        if not (images.named_vllm(self.image) or images.runs(self.image) == "huggingface" or self._has_leader()):
            return None
        return Command(
            entry="worker", words=(), path=self.path, env=self.env.known, shell=scripted, exec=not scripted,
            program="ray start", complete=False,
        )  # fmt: skip

    def _has_leader(self) -> bool:
        """True if another container of the same object serves."""
        first = self.cached_object.once(self._first_containers, "first containers")
        others = (serves for path, serves in first if path != self.container.path)
        return any(itertools.islice(others, _SIBLINGS))

    def _first_containers(self, cached_object: CachedObject) -> list[tuple[FieldPath, bool]]:
        """(path, True if it serves) of each of the object's first containers."""
        rows = ((workload, container) for workload in cached_object.workloads for container in workload.containers)
        first = [
            (workload, container) for workload, container in itertools.islice(rows, _EXAMINED) if not container.init
        ]
        return [(container.path, self._serves(workload, container)) for workload, container in first[: _SIBLINGS + 1]]

    def _serves(self, workload: Workload, container: Container) -> bool:
        command = _Sibling(workload, container, self.config_maps, self.budget).resolve()
        return command is not None and command.entry != "worker"


class _Sibling(_Resolver):
    def _has_leader(self) -> bool:
        return False


def _repeats_serve(words: Sequence[Value], *, old: bool) -> bool:
    """True if the args of vLLM's own image begin with `serve`, which vLLM takes for the model. `old`: the entrypoint
    may be the module, which from 0.10 on ignores a positional word before `--model`."""
    if len(words) < 2 or known(words[0]) != "serve":
        return False
    model = known(words[1])
    return not old or (model is not None and not model.startswith("-"))


def _without(env: Mapping[str, Value], removed: frozenset[str]) -> dict[str, Value]:
    """The environment that `env -u A` and `env -i` leave."""
    return {} if "*" in removed else {name: value for name, value in env.items() if name not in removed}


def _child(sh: Shell, argv: Sequence[Value], positional: Sequence[Value], zero: Value | None = None) -> Shell:
    """The shell that a command starts, with the variables that it gets (`env -i sh -c …`)."""
    child, removed = sh.child(positional, zero), entry.removals(argv)
    child.state.variables.update(sh.environment)
    for name in list(child.state.variables) if "*" in removed else removed:
        child.state.variables.pop(name, None)
    child.state.variables.update(entry.assignments(argv))
    child.state.exported |= child.state.variables.keys()
    if "*" in removed:
        child.state.rest = None
    if entry.may_reset(argv):
        child.state.forget_all(f"{text_of(argv[0])} may start it with other variables")
    return child


def _name_of(command: Node) -> Node:
    """A command's name, which comes after the variables that it sets for itself."""
    return command.child_by_field_name("name") or command


def _shell_of(script: str, named: str) -> str:
    """The shell that runs a script: the one that is named, or that of its first line."""
    first = _SHEBANG.match(script)
    return named or (first[1] if first else "")


def _with_lost(command: Command, lost: Sequence[Value]) -> Command:
    """The command with the words that never reach vLLM."""
    if not lost:
        return command
    return replace(command, lost=words_of(lost, command.path))


__all__ = ["resolve"]
