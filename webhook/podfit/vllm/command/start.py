"""The walk from a container to vLLM's command line: the command decides first, then the image."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from podfit.base.lazy import regex
from podfit.kube.path import FieldPath, mapping
from podfit.kube.workload import JSON, CachedObject, Container, Workload
from podfit.vllm.command import changes, dialect, entry, handed, images, kserve, telling
from podfit.vllm.command.entry import Join, Script, Serve, Unknown
from podfit.vllm.command.expand import items
from podfit.vllm.command.reading import Reading
from podfit.vllm.command.state import Visited
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
"""A statement of a script, roughly: the text between two separators, whether they are quoted or not."""
_SERVER = regex(r"\bvllm\s+serve\b|\bvllm\.entrypoints\.[\w.]{0,100}api_server\b")
_SHEBANG = regex(r"#!\S*?(?:env\s+(?:-S\s+)?)?(\w*sh)\b")
"""The first line of a script that names its shell."""
_SHEBANG_E = regex(r"#!\S*sh\s+-\w*e")
"""The first line of a script that exits at the first command that fails."""
_LINE = regex(r"(\S*/)?(vllm|python[\d.]*|env|(ba|da|a|z|k)?sh)\s")
"""A program's name and more words in the same word."""
_SIBLINGS, _EXAMINED = 8, 64
"""Other first containers of an object that may be the leader: it is among the first, if there is one. And containers
that are examined for that, including init containers. Choices that bound the cost of an object with many Pods."""
_SERVERS = 4
"""Servers of one script that are followed. A choice: each one only matters if all those before it fail."""
_SPLITS = 2
"""Nested `sh -c` that are split (`sh -c sh -c vllm …`). A choice: one such mistake is usual, more are not."""


def resolve(
    workload: Workload, container: Container, config_maps: Mapping[str, JSON] | None = None,
    budget: WorkLimit | None = None, cached_object: CachedObject | None = None,
) -> Command | None:  # fmt: skip
    """How `container` starts vLLM, or None if it does not run vLLM. `config_maps`: name → ConfigMap of the same file or
    namespace, for `envFrom`, `configMapKeyRef`, `--config` and mounted scripts. `budget`: the work that all scripts of
    the object may cost. `cached_object`: the object, for a caller that checks all its containers."""
    return _Resolver(workload, container, config_maps or {}, budget, cached_object).resolve()


class _LastServer(Exception):  # noqa: N818 - a way out of the walk through a script
    """Ends the walk: the last server that matters was found."""


@dataclass
class _ScriptFacts:
    """The facts that the walk through a script, and through those that it starts, has collected so far."""

    joined: bool = False
    """The script joins a Ray cluster."""
    guess: Command | None = None
    """The first program that takes vLLM's arguments, as if it were vLLM; None if there is none."""
    installed: str = ""
    """The release of vLLM that it certainly installed last, if it names one."""
    texts: list[str] = field(default_factory=list)
    """The scripts, each as it was started."""
    servers: list[Command] = field(default_factory=list)
    """The servers that it starts one after the other, each because the one before has failed."""

    def may_follow(self, sh: Shell) -> bool:
        """True if the script may, on another branch, end in a program that does not serve."""
        if any(map(_follows, self.texts)):
            return True
        # A script that names only one server has another branch on which it starts none.
        return sh.branched and all(len(_SERVER.findall(text)) < 2 for text in self.texts)


def _may_serve(text: str) -> bool:
    """True if the script mentions a server, ignoring its quotes."""
    for sign in "'\"\\":
        text = text.replace(sign, "")
    return "vllm" in text and _SERVER.search(text) is not None


def _follows(text: str) -> bool:
    """True if the script has `--headless`, `run.sh worker`, or `ray start` without `--head` after it."""
    for statement in _STATEMENT.findall(text) if "ray" in text else ():
        parts = _RAY.split(statement)
        if len(parts) > 1 and not _LEADS.search(parts[-1]):
            return True
    return _FOLLOWS.search(text) is not None


class _Resolver(Reading):
    """The search for vLLM's command in one container."""

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
        texts = [*items(self.container.spec.get("command")), *items(self.container.spec.get("args"))]
        return self._unread(self.unread_reason, " ".join([text for text in texts if isinstance(text, str)]))

    def _resolved(self) -> Command | None:
        """The command, from `command` and `args` or the image's entrypoint; raises GiveUp at a limit."""
        words = self.commands or self.args
        if words and telling.CACHE_SERVER.fullmatch(text_of(words[0])[: entry.LONGEST_PATH]):
            return None
        if self.commands:
            line = text_of(self.commands[0])
            if _LINE.match(line) and "\n" not in line.strip():
                # A whole command line in one word: no program has such a name, and the intention is clear.
                return self._unsplit(line)
            return self._started([*self.commands, *self.args])
        return self._without_command()

    def _unsplit(self, line: str) -> Command | None:
        """The command if the first item, `line`, were split into words: guessed, or with the slip that nothing does."""
        path, words = self.commands[0][0].path, entry.split(line)
        command = self._started([*(literal(word, path) for word in words), *self.commands[1:], *self.args])
        if command is None or command.unread:
            return command
        if not isinstance(self.container.spec.get("command"), list) or self.container.synthetic:
            # In an operator's own field, which the operator may split.
            return replace(command, guessed="the whole command line is one word, and no program is called that")
        why = f"{line!r} is one word: no shell splits it, and no program is called that"
        return replace(command, slip=Slip(line, tuple(words), why, path, unsplit=True))

    # ── no command ──

    def _without_command(self) -> Command | None:
        """The image's entrypoint with the args."""
        if self._is_ray_node():
            return self._worker(scripted=False)
        runs = images.runs(self.image)
        if self.args and not isinstance(entry.start(self.args), Unknown):
            command = self._started(self.args)  # the args name a program themselves
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
                return self._script(line, Script(self.args[0], None, None, ()))
        if self.container.init and self.container.spec.get("restartPolicy") != "Always":
            return None  # an init container that exits; a sidecar serves
        return self._entrypoint(runs)

    def _entrypoint(self, runs: str | None) -> Command | None:
        """The command of an entrypoint that takes the args as vLLM's arguments; `runs`: as `images.runs` returns it."""
        words = tuple(self.args)
        if runs == "huggingface":
            return self.serve(Serve("module", "huggingfaceserver", words, own_flags=True), self.env)
        if runs in ("serve", "module"):
            old = runs == "module" or images.before_serve(self.image)
            if _repeats_serve(words, old=old):
                command = self.serve(Serve("serve", images.SERVE, words[1:]), self.env)
                return command and replace(command, repeated=True)
            program = Serve("module", images.MODULE, words) if old else Serve("serve", images.SERVE, words)
            return self.serve(program, self.env)
        if runs is None and images.named_vllm(self.image):
            return self._guess(words, f"the image's name, {self.image}, contains vLLM", complete=bool(words))
        if telling.looks_like_vllm(self.image, words):
            return self._guess(words, "the arguments are vLLM's")
        return None

    def _is_ray_node(self) -> bool:
        """True if it is a Ray node's own container, which gets `ray start` from KubeRay if it has no command."""
        if self.args or self.container.synthetic:
            return False
        first = self.container.path.parts[-2:] == ("containers", 0)
        groups = {"headGroupSpec", "workerGroupSpecs"} & set(self.workload.path.parts)
        return bool(groups) and first and images.named_vllm(self.image)

    # ── a command ──

    def _started(self, argv: Sequence[Value]) -> Command | None:
        """The command that a program starts, through wrappers and scripts; None if it does not start vLLM."""
        started = entry.start(argv)
        if isinstance(started, Join):
            return self._worker(scripted=False)
        if isinstance(started, Script):
            return self._started_script(started, argv)
        if isinstance(started, Unknown):
            text = self.file(started.program)
            if text is not None and re.match(r"#!.*\b(ba|da|a|z|k)?sh\b", text):
                path = literal(started.program)
                return self._script(text, Script(None, path, path, started.words))
            self.unread_reason = started.reason or self.unread_reason
            return self._opaque(started.program, started.words)
        variables, removed = entry.assignments(argv), entry.removals(argv)
        env = {**_without(self.env, removed), **variables} if variables or removed else self.env
        command = self.serve(self._with_additional(started), env, decided=removed | variables.keys(), argv=argv)
        change = entry.change_by_manager(argv)
        if command is None or change is None:
            return command
        release = entry.release_by_manager(argv) if change == "vllm" else ""
        return replace(command, changes=command.changes | {change}, release=release)

    def _started_script(self, started: Script, argv: Sequence[Value]) -> Command | None:
        """The command that the script of a shell starts; `argv`: the shell's words, with its wrappers."""
        text = self._text(started)
        if text is None:
            return self._opaque(text_of(started.file or literal("")), started.positional)
        shell_name = entry.shell_name(argv)
        if started.text is not None:
            self.script_path = origin_of(started.text) or self.path
            self.script = shell_name, text
        return self._script(text, started, shell_name)

    def _with_additional(self, started: Serve) -> Serve:
        """Add VLLM_ADDITIONAL_ARGS, which KServe's presets append to their command; elsewhere, `started` itself."""
        llm = self.workload.kind in ("LLMInferenceService", "LLMInferenceServiceConfig")
        is_preset = "command" in self.container.places  # the command has a place outside of the container
        if not (llm and is_preset):
            return started
        return Serve(started.entry, started.program, (*started.words, *kserve.additional(self.env)))

    def _opaque(self, program: str, words: Sequence[Value]) -> Command | None:
        """The guess for a program that podfit does not know; None without vLLM's arguments or an image named vLLM."""
        if self.container.init:
            return None
        if telling.looks_like_vllm(program, words):
            return self._guess(words, f"{program} takes vLLM's arguments", program=program)
        is_vllm_image = images.named_vllm(self.image) and images.runs(self.image) != "other"
        if is_vllm_image and telling.is_server_file(program):
            return self._guess(words, f"{program} runs in an image that says vLLM", program=program, complete=False)
        return None

    def _guess(self, words: Sequence[Value], why: str, program: str = "", *, complete: bool = True) -> Command | None:
        """The command if these words are vLLM's arguments, marked as guessed because of `why`. `program`: empty for the
        image's entrypoint. `complete`: False if it may add arguments of its own, such as a model from a variable."""
        words = list(words)
        if words and text_of(words[0]) == "serve":
            words = words[1:]  # the image's entrypoint is `vllm`
        has_positional = bool(words) and not text_of(words[0]).startswith("-")
        if not (complete or has_positional or telling.names_model(words)):
            variable = next((name for name in _MODEL_VARIABLES if name in self.env), None)
            if variable is not None:
                value = self.env[variable]
                words = [(*literal("--model=", value[0].path), *value), *words]
        by_flag = any(re.match(r"--model(=|$)", text_of(word)) for word in words)
        entry_point = "module" if by_flag else "serve"
        started = Serve(entry_point, program or "the image's entrypoint", tuple(words), own_flags=True)
        return self.serve(started, self.env, guessed=why, complete=complete)

    # ── scripts ──

    def _text(self, started: Script) -> str | None:
        """The script's text, from the words or from its file; None if the file is unknown."""
        if started.text is not None:
            return "".join(self._raw(piece) for piece in started.text)
        file = known(started.file) if started.file is not None else None
        return self.file(file) if file is not None else None

    def _raw(self, piece: Piece) -> str:
        """The text of a piece of the script: an unknown variable as `$(VAR)`, which the modules of the shell expand."""
        if piece.unknown is None:
            return piece.text
        name = re.fullmatch(r"\$[({]?(\w+)[)}]?", piece.text)
        return f"$({name[1]})" if name else piece.text

    def _script(self, text: str, script: Script, shell_name: str = "") -> Command | None:
        """The command of the first server that the script starts, else of what looks like vLLM; None without either.
        `text`: the script's, also if it is in a file. `shell_name`: empty if the first line may name the shell."""
        facts, inline = _ScriptFacts(texts=[text]), script.text is not None
        self.scripted = True

        from podfit.vllm.command.script import shell  # here, because most containers have no script

        runner = shell(self.env, self.files, lambda argv, sh: self._visit(argv, sh, facts), self.budget)
        runner.marks = inline and self.script_path.get(self.workload.object) == text
        runner.state.positional = list(script.positional)
        runner.state.zero = script.zero or runner.state.zero
        runner.state.errexit = script.errexit or _SHEBANG_E.match(text) is not None
        runner.doubt = dialect.doubt(text, _shell_of(text, shell_name))
        try:
            runner.run(text)
        except _LastServer:
            pass
        except GiveUp as why:
            if not facts.servers:
                self.unread_reason = str(why)  # for the case that its own words name vLLM, not the script's
                return facts.guess or self._unread(str(why), *facts.texts)
            survived = f"what the script does after it is not read: {why}"
            facts.servers[-1] = replace(facts.servers[-1], survived=survived)
        if facts.servers:
            first, *then = facts.servers
            command = replace(first, script=text if runner.marks else None, unclosed=unclosed(text), then=tuple(then))
            return replace(command, lost=words_of(_lost(text, script), command.path)) if inline else command
        if facts.guess is not None:
            return facts.guess
        if inline and script.zero is not None and len(text.split()) == 1:
            return self._split(text, [script.zero, *script.positional])
        return self._worker(scripted=True) if facts.joined else None

    def _unread(self, why: str, *texts: str) -> Command | None:
        """A container whose command is too complex to read; None if nothing suggests that it starts vLLM. `why`: the
        limit, for people. `texts`: the text that was not read."""
        what = "script" if self.scripted else "command line"
        may_be_image = images.runs(self.image) != "other"
        named = (may_be_image and images.named_vllm(self.image)) or any(map(_may_serve, texts))
        if self.container.init or not (named or (may_be_image and self._asks_for_a_device())):
            return None
        started, guessed = Serve("serve", f"the {what}", (), own_flags=True), f"its {what} is too complex to be read"
        command = self.serve(started, self.env, guessed=guessed, complete=False)
        return command and replace(command, unread=why, script_path=self.script_path, unnamed=not named)

    def _asks_for_a_device(self) -> bool:
        """True if it requests an accelerator, by a resource, an annotation or a claim."""
        claims = mapping(self.container.spec.get("resources")).get("claims")
        return bool(claims or resource.requests(self.workload, self.container))

    def _split(self, text: str, lost: list[Value]) -> Command | None:
        """`sh -c vllm serve MODEL`: the script `text` is only the first word, but the intention is clear. `lost`: the
        other words. None if they do not start a server, or if too many `sh -c` follow one another."""
        self.splits += 1
        if self.splits > _SPLITS:
            self.unread_reason = entry.TOO_MANY
            return None
        command = self._started([literal(text.strip(), self.script_path), *lost])
        if command is None or command.entry == "worker":
            return None
        guessed = f"sh -c runs only {text.strip()!r}; the other words are lost"
        return replace(command, lost=words_of(lost, self.path), guessed=guessed)

    def _visit(self, argv: Sequence[Value], sh: Shell, facts: _ScriptFacts) -> Visited:
        """Note in `facts` what one command of a script starts. `sh` has the state before the command."""
        started = entry.start(argv)
        if isinstance(started, Serve):
            return self._visit_server(started, argv, sh, facts)
        if isinstance(started, Script):
            return self._visit_script(started, argv, sh, facts)
        if isinstance(started, Unknown):
            return self._visit_unknown(started, argv, sh, facts)
        facts.joined = True
        return Visited()

    def _visit_server(self, started: Serve, argv: Sequence[Value], sh: Shell, facts: _ScriptFacts) -> Visited:
        """Note a server, and go on as if it fails. Raises _LastServer if the commands after it do not matter."""
        removed = entry.removals(argv)
        env = {**_without(sh.environment, removed), **entry.assignments(argv)}
        decided = sh.state.removed | removed | env.keys()
        guessed = "it is in a part of the script that may not run" if sh.conditional else None
        command = self.serve(
            started, env, shell_exec=sh.exec, guessed=guessed, decided=decided, file=sh.file, argv=argv,
            moved=sh.elsewhere,
        )  # fmt: skip
        if command is None:
            return Visited()
        if any(changes.CODE.search(path) for path in sh.state.files.keys() - self.files.keys()):
            sh.changes.add("code")
        change, release = entry.change_by_manager(argv), ""
        if change is not None:
            sh.changes.add(change)
        if change == "vllm":
            release = entry.release_by_manager(argv)
        elif "vllm" in sh.changes and "vllm" not in command.changes:
            release = facts.installed
        survived = "the script starts it in the background" if sh.background else sh.doubt
        cut_off = words_of(map(literal, sh.words_cut_off), self.script_path)
        server = replace(
            command, release=release, changes=command.changes | sh.changes, exec_at=self._exec_at(sh),
            unforked=self._unforked(sh), cut_off=cut_off, branched=sh.branched, may_follow=facts.may_follow(sh),
            survived=survived,
        )  # fmt: skip
        facts.servers.append(server)
        if guessed or sh.background or len(facts.servers) == _SERVERS:
            raise _LastServer
        return Visited(fails=True)

    def _visit_script(self, started: Script, argv: Sequence[Value], sh: Shell, facts: _ScriptFacts) -> Visited:
        """Follow a shell's script; if its file is unknown, it may install packages, or it may be vLLM's wrapper."""
        text = started.text
        if started.file is not None:
            name = known(started.file)
            text = sh.contents(name) if name else None
        if text is not None:
            child = _child(sh, argv, started.positional, started.zero)
            child.state.errexit = started.errexit
            return self._run_child(child, text, sh, facts, entry.shell_name(argv))
        if started.file is not None:
            sh.changes.add("packages")
            self._note_guess(text_of(started.file), started.positional, sh, facts)
        return Visited()

    def _visit_unknown(self, started: Unknown, argv: Sequence[Value], sh: Shell, facts: _ScriptFacts) -> Visited:
        """Follow a shell's input or a known file; note any other program's change, and whether it may wrap vLLM."""
        if started.program == entry.A_SHELL:
            if sh.stdin is not None:
                child = _child(sh, argv, started.words)
                return self._run_child(child, sh.stdin, sh, facts, entry.shell_name(argv))
            sh.changes.add("packages")  # its script is unknown
            return Visited()
        self.unread_reason = started.reason or self.unread_reason
        text = sh.contents(started.program) if started.program else None
        if text is not None and not started.program.endswith(".py"):
            return self._run_child(_child(sh, argv, started.words, literal(started.program)), text, sh, facts)
        change = changes.change_made_by(argv, text_of(sh.stdin or ()))
        if change is not None:
            sh.changes.add(change)
        if change == "vllm":
            facts.installed = "" if sh.conditional else entry.release_installed(argv)
        self._note_guess(started.program, started.words, sh, facts)
        return Visited()

    def _run_child(self, child: Shell, script: Value, sh: Shell, facts: _ScriptFacts, shell_name: str = "") -> Visited:
        """Follow a script that the shell `sh` starts in `child`. It fails if it ends with a server that fails.
        `shell_name`: the program of `child`; empty if the script's first line may name it."""
        script_text = handed.to_child(script, sh.state)
        text = script_text.text
        facts.texts.append(text_of(script))
        child.state.variables.update(script_text.variables)
        child.state.errexit = child.state.errexit or _SHEBANG_E.match(text) is not None
        child.doubt = sh.doubt or script_text.doubt or dialect.doubt(text, _shell_of(text, shell_name))
        before = len(facts.servers)
        status = child.run(text)
        sh.state.files = child.state.files
        return Visited(fails=status == "no" and len(facts.servers) > before, follows_writes=True)

    def _unforked(self, sh: Shell) -> bool:
        """True if a shell may replace itself by this command, although the script has no `exec`."""
        last = sh.last
        if self.script is None or last is None or source(_name_of(last)) == "exec":
            return False
        return sh.exec or (self.script[0] == "bash" and is_at_end(last))

    def _exec_at(self, sh: Shell) -> int | None:
        """The position at which `exec` can be inserted into the manifest's script; None without one."""
        last = sh.last
        if self.script is None or last is None or not sh.marks:
            return None
        before = self.script[1].encode(errors="replace")[: _name_of(last).start_byte]
        return len(before.decode(errors="replace"))

    def _note_guess(self, program: str, words: Sequence[Value], sh: Shell, facts: _ScriptFacts) -> None:
        """Keep a program that looks like a wrapper of vLLM, if none was found before."""
        if facts.guess is None and not self.container.init and telling.looks_like_vllm(program, words):
            wrapper = Serve("serve", program, tuple(words), own_flags=True)
            guessed = f"{program} takes vLLM's arguments"
            facts.guess = self.serve(wrapper, sh.environment, shell_exec=sh.exec, guessed=guessed)

    # ── the commands that are found ──

    def _worker(self, *, scripted: bool) -> Command | None:
        """A Ray worker; None if nothing shows that its cluster runs vLLM. `scripted`: a script starts it."""
        if not (images.named_vllm(self.image) or images.runs(self.image) == "huggingface" or self._has_leader()):
            return None
        return Command(
            entry="worker", words=(), path=self.path, env=self.env.known, shell=scripted, exec=not scripted,
            program="ray start", complete=False,
        )  # fmt: skip

    def _has_leader(self) -> bool:
        """True if another container of the same object serves."""
        first = self.cached_object.once(self._first_containers, "first containers")
        others = [examined.serves for examined in first if examined.path != self.container.path]
        return any(others[:_SIBLINGS])

    def _first_containers(self, cached_object: CachedObject) -> list[_Examined]:
        """The object's first containers: one more than `_SIBLINGS`, because one of them may be this container."""
        pairs = ((workload, container) for workload in cached_object.workloads for container in workload.containers)
        first: list[_Examined] = []
        for workload, container in itertools.islice(pairs, _EXAMINED):
            if not container.init and len(first) <= _SIBLINGS:
                command = _Sibling(workload, container, self.config_maps, self.budget).resolve()
                first.append(_Examined(container.path, command is not None and command.entry != "worker"))
        return first


class _Examined(NamedTuple):
    """A container of the object, and whether it starts a server."""

    path: FieldPath
    serves: bool


class _Sibling(_Resolver):
    """Another container of the object. It does not look for a leader itself, because that might not end."""

    def _has_leader(self) -> bool:
        """Never: a worker serves for no other worker."""
        return False


def _repeats_serve(words: Sequence[Value], *, old: bool) -> bool:
    """True if the args of vLLM's own image begin with `serve`, which vLLM takes for the model. `old`: the entrypoint
    may be the module, which from 0.10 on ignores a positional word before `--model`; so a flag after it is harmless."""
    if len(words) < 2 or known(words[0]) != "serve":
        return False
    model = known(words[1])
    return not old or (model is not None and not model.startswith("-"))


def _without(env: Mapping[str, Value], removed: frozenset[str]) -> dict[str, Value]:
    """The environment that `env -u A` and `env -i` leave."""
    return {} if "*" in removed else {name: value for name, value in env.items() if name not in removed}


def _child(sh: Shell, argv: Sequence[Value], positional: Sequence[Value], zero: Value | None = None) -> Shell:
    """The shell that a command starts, with the variables that it gets (`env -i sh -c …`). `positional`, `zero`: its
    `$1` … and `$0`; None: the shell's own name."""
    child, removed = sh.child(positional, zero), entry.removals(argv)
    child.state.variables.update(sh.environment)
    for name in list(child.state.variables) if "*" in removed else removed:
        child.state.variables.pop(name, None)
    child.state.variables.update(entry.assignments(argv))
    child.state.exported |= child.state.variables.keys()
    if "*" in removed:
        child.state.rest = None  # and there are no others
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


def _lost(text: str, script: Script) -> tuple[Value, ...]:
    """The words after the script of `sh -c` that its `text` never uses; `$0` only if it seems to be an argument."""
    lost = script.positional if re.search(r"\$\{?[@*1-9]", text) is None else ()
    if script.zero is None or re.search(r"\$\{?0", text):
        return lost
    name = text_of(script.zero)
    # By convention $0 is a name ("sh", "--", "_"); losing it changes nothing.
    is_argument = re.match(r"--?\w", name) is not None or (bool(lost) and name not in ("--", "_"))
    return (script.zero, *lost) if is_argument else lost
