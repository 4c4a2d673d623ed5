"""An argv → what it starts: a vLLM server, a worker that joins one, another shell, or another program."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from podfit.base.lazy import regex
from podfit.vllm.command.word import Change, Slip, Value, known, literal, mystery, text_of, texts_of

Argv = Sequence[Value]


class Serve(NamedTuple):
    """vLLM itself."""

    entry: str
    program: str
    words: tuple[Value, ...]
    own_flags: bool = False
    slip: Slip | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """A process that joins a Ray cluster, in which a leader may run vLLM."""


class Script(NamedTuple):
    """A shell with a script: its text, or the file that contains it."""

    text: Value | None
    file: Value | None
    zero: Value | None
    positional: tuple[Value, ...]
    errexit: bool = False
    """It ends with the first command that fails (`sh -e`)."""


class Unknown(NamedTuple):
    """A program that the manifest does not describe."""

    program: str
    words: tuple[Value, ...]
    reason: str = ""
    """Why the command that it starts is not read, for people: there are too many words before it."""


Start = Serve | Join | Script | Unknown

_MODULES = regex(r"vllm(_\w+)?\.entrypoints\.(\w+\.)*(api_server|run_batch|grpc_server|serve)")
_SERVER = "vllm.entrypoints.openai.api_server"
_MODULE_FILES = regex(r"(?:.*/)?(vllm/entrypoints/(?:\w+/)*(?:api_server|run_batch|grpc_server))\.py")
_LONGEST_PATH = 4096
"""Bytes of a file's path, at most (Linux PATH_MAX)."""
_WRAPPING_MODULES = frozenset({"vllm_tgis_adapter", "dynamo.vllm", "huggingfaceserver"})
"""Modules that take vLLM's flags and some of their own."""

_WRAPPERS = frozenset(
    {
        "exec", "command", "builtin", "time", "env", "nohup", "setsid", "nice", "ionice", "chrt", "taskset",
        "stdbuf", "timeout", "numactl", "tini", "tini-static", "dumb-init", "catatonit", "s6-setuidgid", "gosu",
        "su-exec", "sudo", "doas", "chroot", "unshare", "setpriv", "nsys", "ncu", "nvprof", "rocprof", "rocprofv3",
        "perf", "strace", "ltrace", "gdb", "valgrind", "py-spy", "scalene", "viztracer", "memray", "coverage", "uv",
        "uvx", "pipx", "poetry", "pdm", "pipenv", "hatch", "rye", "pixi", "conda", "mamba", "micromamba", "torchrun",
        "mpirun", "mpiexec", "srun", "accelerate", "ddtrace-run", "opentelemetry-instrument", "doppler", "op",
        "vault", "infisical", "chamber", "envconsul", "aws-vault", "xvfb-run", "catchsegv", "script", "unbuffer",
        "watchexec", "lmcache_frontend", "proxychains", "proxychains4", "newrelic-admin", "runuser", "dotenv", "direnv",
        "mise", "sops", "bwrap", "fixuid", "dockerize", "wait-for-it", "wait-for-it.sh", "wait-for", "entrypoint.sh",
        "flock", "prlimit", "rlwrap", "firejail", "systemd-run", "vault-env", "berglas", "summon", "with-contenv",
        "docker-entrypoint.sh", "nvidia_entrypoint.sh", "dockerd_entrypoint.sh", "dockerd-entrypoint.sh",
    }
)  # fmt: skip
"""Programs that start the program in their arguments."""

_PYTHONS = regex(r"(python|pypy)[\d.]*")
_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh", "ksh", "busybox"})
A_SHELL = "a shell"
"""A shell that reads its script from its input."""
_DEEPEST = 8
"""Programs that start one another in one command line."""
_NEAR = 64
"""Most words of a wrapper's own options, without the variables that it sets."""
_SETS = regex(r"[A-Za-z_]\w*=")
TOO_FAR = f"the program has more than {_NEAR} words before it"
TOO_MANY = f"more than {_DEEPEST} programs start one another before it"
_SPLITS_A_STRING = regex(r"-[iv0]*S|--split-string")
"""Options of `env` before a string that is a command line (GNU coreutils 9.5, src/env.c)."""
UNSPLIT = "the string of env -S is not read"
_NOT_SERVING = frozenset({"bench", "chat", "complete", "collect-env", "launch"})
_VERSIONED = regex(r"(?:--(?:from|with)=)?vllm(?:\[[^\]]{0,100}\])?(?:@|==)v?([\w.]{1,40})")
"""`uvx vllm@0.10.0`, `uvx --from vllm==0.10.0` (docs.astral.sh/uv/guides/tools)."""
_CLI = {"serve": "serve", "run-batch": "module"}
_LEADER_SCRIPTS = regex(r"(multi[-_]node[-_]serving|ray[-_]init|run[-_]cluster|start[-_]ray|ray[-_]start)\w*\.sh")


_FLAG = regex(r"--[a-z-]+")
"""A flag instead of a program: the arguments for an image's entrypoint usually begin with one."""


def start(argv: Argv, depth: int = 0) -> Start:
    """The program that `argv` starts, without any wrappers; `depth`: how many programs have started one another so
    far."""
    if not argv:
        return Unknown("", ())
    first = text_of(argv[0])
    if first[:2] == "--" and _FLAG.fullmatch(first):
        return _module_later(argv) or Unknown(first, tuple(argv[1:]))
    entry = _plain(argv, depth)
    if entry is not None:
        return entry
    if _name(argv[0]) in _WRAPPERS:
        near = (n for n in range(1, len(argv)) if not _SETS.match(argv[n][0].text))
        for index in itertools.islice(near, _NEAR):
            entry = _plain(argv[index:], depth)
            if entry is not None:
                return entry
        if len(argv) > _NEAR:
            return Unknown(first, tuple(argv[1:]), TOO_FAR)
    else:
        entry = _module_later(argv)
        if entry is not None:
            return entry
    return Unknown(text_of(argv[0]), tuple(argv[1:]))


def assignments(argv: Argv) -> dict[str, Value]:
    """The variables that `env A=b … command` sets."""
    entries: dict[str, Value] = {}
    if _name(argv[0]) not in ("env", "sudo"):
        return entries
    for before, word in itertools.pairwise(argv):
        match = re.match(r"([A-Za-z_]\w*)=", word[0].text if word[0].unknown is None else "")
        if match:
            rest = word[0].text[match.end() :]
            entries[match[1]] = (*literal(rest, word[0].path), *word[1:])
        elif not text_of(word).startswith("-") and text_of(before) not in ("-u", "--unset", "-C", "--chdir"):
            break
    return entries


def removals(argv: Argv) -> frozenset[str]:
    """The variables that `env -u A … command` removes; "*" if it removes all (`env -i`)."""
    if not argv or _name(argv[0]) != "env":
        return frozenset()
    names: set[str] = set()
    texts = texts_of(argv[:_NEAR])
    for before, text in itertools.pairwise(texts):
        if text in ("-", "-i", "--ignore-environment"):
            names.add("*")
        elif before in ("-u", "--unset"):
            names.add(text)
        elif match := re.fullmatch(r"(?:--unset=|-u)(\w+)", text):
            names.add(match[1])
        elif not text.startswith("-") and "=" not in text:
            break
    return frozenset(names)


def may_reset(argv: Argv) -> bool:
    """True if it may start its command in another environment than its own, by rules that the manifest does not
    show."""
    texts = texts_of(argv[:_NEAR])
    names = {text.rpartition("/")[2] for text in texts}
    kept = {"-E", "--preserve-env", "-m", "-p", "--preserve-environment"}
    return _name(argv[0]) in ("sudo", "su", "runuser", "doas") and names.isdisjoint(kept)


def _name(word: Value) -> str:
    return text_of(word).rpartition("/")[2]


def _plain(argv: Argv, depth: int) -> Start | None:
    """The program that `argv` starts if its first word identifies it, else None. A command inside of it is read only
    once, because each reading goes through many words."""
    if depth > _DEEPEST:
        return Unknown(text_of(argv[0]), tuple(argv[1:]), TOO_MANY)
    name, texts = _name(argv[0]), texts_of(argv[:2])
    if name == "env" and _SPLITS_A_STRING.match(texts[-1]):
        return Unknown("env", tuple(argv[1:]), UNSPLIT)
    if "KUBERAY_GEN_RAY_START_CMD" in texts[0]:
        return Join()
    if "vllm" in name and (name in ("vllm", "vllm-omni", "lmcache_vllm") or _VERSIONED.fullmatch(name)):
        return _cli(argv)
    if name[:2] == "py" and _PYTHONS.fullmatch(name):
        return _python(argv)
    if name == "busybox" and len(argv) > 1:
        argv, name = argv[1:], _name(argv[1])
        if name not in _SHELLS:
            return start(argv, depth + 1)
    if name in _SHELLS:
        return _shell(argv)
    if name == "ray" and "start" in texts[1:2]:
        options = [text_of(word) for word in argv[2:]]
        joins = any(option.startswith("--address") for option in options)
        return Join() if joins and "--head" not in options else Unknown("ray start --head", ())
    if name[-3:] == ".sh" and _LEADER_SCRIPTS.fullmatch(name):
        return _leader_script(argv)
    if name == "dynamo" and "serve" in texts[1:2]:
        return _dynamo_serve(argv)
    if name in ("su", "runuser", "script", "flock"):
        return _login(argv, depth)
    if name == "xargs":
        return _xargs(argv, depth)
    if texts[0] == "-m":
        entry = _module(argv[1:])
        return entry if isinstance(entry, Serve) else None
    return None


def _login(argv: Argv, depth: int) -> Start | None:
    """`su USER -c SCRIPT`, `script -c SCRIPT FILE`, `runuser -u USER -- COMMAND`."""
    texts = [text_of(word) for word in argv[:_NEAR]]
    flag = next((n for n, text in enumerate(texts) if re.fullmatch(r"-[a-z]*c|--(session-)?command", text)), None)
    if flag is not None and flag + 1 < len(argv):
        return Script(argv[flag + 1], None, None, ())
    return start(argv[texts.index("--") + 1 :], depth + 1) if "--" in texts[1:-1] else None


def _xargs(argv: Argv, depth: int) -> Start:
    """`… | xargs COMMAND`: the command gets further words, which are unknown."""
    near = range(1, min(len(argv), _NEAR))
    entry = next((candidate for index in near if (candidate := _plain(argv[index:], depth + 1)) is not None), None)
    if isinstance(entry, Serve):
        return entry._replace(words=(*entry.words, mystery("", "xargs adds what it reads")))
    return Unknown("xargs", tuple(argv[1:]))


def _cli(argv: Argv) -> Start | None:
    """The program of `vllm SUBCOMMAND …`; None if the words are not such a command."""
    if len(argv) < 2:
        return None
    subcommand = text_of(argv[1])
    if subcommand in _CLI:
        program = "vllm-omni" if _name(argv[0]) == "vllm-omni" else "vllm"
        return Serve(_CLI[subcommand], f"{program} {subcommand}", tuple(argv[2:]), own_flags=subcommand == "run-batch")
    if subcommand in _NOT_SERVING or subcommand[:1] == "-":
        return Unknown(f"vllm {subcommand}", ())
    return _slipped(argv) if _name(argv[0]) == "vllm" and known(argv[1]) is not None else None


def _slipped(argv: Argv) -> Serve | None:
    """`vllm server MODEL`, `vllm MODEL`, `vllm "serve MODEL"`: vLLM rejects it, but the author means `vllm serve`."""
    text, path = text_of(argv[1]), argv[1][0].path
    first, *rest = split(text) or [""]
    words = (*(literal(word, path) for word in rest), *argv[2:])
    if rest and first in _CLI:
        why = f"{text!r} is one word: no shell splits it, and vLLM has no such subcommand"
        slip = Slip(text, (first, *rest), why, path, unsplit=True)
        return Serve(_CLI[first], f"vllm {first}", words, own_flags=first == "run-batch", slip=slip)
    why = f"vLLM has no subcommand {text!r}: invalid choice"
    if not rest and alike(text, "serve"):
        return Serve("serve", "vllm serve", words, slip=Slip(text, ("serve",), why, path))
    if re.fullmatch(r"[\w.-]+/[\w.-]+", text):
        return Serve("serve", "vllm serve", tuple(argv[1:]), slip=Slip(text, ("serve", text), why, path))
    return None


def alike(text: str, meant: str) -> bool:
    """True if `text` is probably a misspelled `meant`."""
    from difflib import SequenceMatcher  # here, because few commands are misspelled

    return len(text) < 2 * len(meant) and SequenceMatcher(None, text, meant).ratio() > 0.8


_MOST_WORDS = 1000
_LONGEST_LINE = 2048
"""Characters of a command line in one word whose quotes are read: `shlex` takes a microsecond for each."""


def split(line: str) -> list[str]:
    """The words into which a shell would split `line`, at most a thousand."""
    import shlex  # here, because few commands need it

    if len(line) <= _LONGEST_LINE:
        with contextlib.suppress(ValueError):  # an unclosed quote
            return shlex.split(line)
    return line.split(maxsplit=_MOST_WORDS)[:_MOST_WORDS]


def _python(argv: Argv) -> Start | None:
    """`python …`, the interpreter first; Unknown for code (`-c`), other files and a bare interpreter."""
    index = 1
    while index < len(argv):
        text = text_of(argv[index])
        if text == "-m":
            return _module(argv[index + 1 :])
        if text == "-c":
            return Unknown("python -c", ())
        if text in ("-X", "-W"):
            index += 2
        elif text.startswith("-") and text != "-":
            if text.startswith("-m") and len(text) > 2:
                return _module([literal(text[2:]), *argv[index + 1 :]])
            if re.fullmatch(r"-[A-Za-z]+m", text):
                return _module(argv[index + 1 :])
            index += 1
        elif _name(argv[index]) == "vllm":
            return _cli(argv[index:])
        elif len(text) <= _LONGEST_PATH and (file := _MODULE_FILES.fullmatch(text)) is not None:
            return _module([literal(file[1].replace("/", ".")), *argv[index + 1 :]])
        else:
            return Unknown(text, tuple(argv[index + 1 :]))
    return Unknown("python", ())


def _module(argv: Argv) -> Start | None:
    """`-m MODULE …`, the module first."""
    if not argv:
        return None
    module, rest = text_of(argv[0]).removesuffix(".__main__").removesuffix(".main"), tuple(argv[1:])
    if module in ("vllm.entrypoints.cli", "vllm.scripts", "vllm"):
        return _cli([literal("vllm"), *rest])
    if _MODULES.fullmatch(module):
        return Serve("module", module, rest, own_flags=module.endswith("run_batch"))
    if module in _WRAPPING_MODULES:
        return Serve("module", module, rest, own_flags=True)
    if module != _SERVER and module.startswith("vllm.") and known(argv[0]) and alike(module, _SERVER):
        slip = Slip(module, (_SERVER,), f"vLLM has no module {module!r}", argv[0][0].path)
        return Serve("module", _SERVER, rest, slip=slip)
    later = _module_later(rest)  # python -m torch.distributed.run … -m vllm.entrypoints…
    return later or Unknown(module, rest)


def _module_later(argv: Argv) -> Start | None:
    """The start of a vLLM module that another module runs (`torchrun … -m MODULE`); None if no near `-m` names one."""
    texts = texts_of(argv[: 4 * _NEAR + 1])
    for index in [n for n, text in enumerate(texts[:-1]) if text == "-m"] if "-m" in texts else ():
        module = texts[index + 1]
        if _MODULES.fullmatch(module) or module in _WRAPPING_MODULES:
            return _module(argv[index + 1 :])
    return None


def _shell(argv: Argv) -> Start:
    """`sh -c SCRIPT $0 $1 …`, `bash FILE …`."""
    script = reads = errexit = False
    index = 1
    while index < len(argv):
        text = text_of(argv[index])
        if text in ("--", "-"):
            index += 1
            break
        if not re.match(r"[-+]\w|--\w", text):
            break
        if not text.startswith("--"):
            script = script or "c" in text
            reads = reads or "s" in text
            errexit = errexit or (text[0] == "-" and "e" in text)
            if text.endswith(("o", "O")):  # -o pipefail, -euo pipefail
                index += 1
        elif text in ("--rcfile", "--init-file"):
            index += 1
        index += 1
    rest = tuple(argv[index:])
    if not rest or (reads and not script):
        return Unknown(A_SHELL, rest)
    if script:
        return Script(rest[0], None, rest[1] if len(rest) > 1 else None, rest[2:], errexit)
    if _LEADER_SCRIPTS.fullmatch(_name(rest[0])):
        return _leader_script(rest)
    return Script(None, rest[0], rest[0], rest[1:], errexit)


def _leader_script(argv: Argv) -> Start:
    """vLLM's examples/online_serving/multi-node-serving.sh and similar scripts: `leader` or `worker`."""
    joins = any(text_of(word) in ("worker", "--worker") for word in argv[1:])
    return Join() if joins else Unknown(text_of(argv[0]), ())


def _dynamo_serve(argv: Argv) -> Start:
    """Dynamo up to 0.3: `dynamo serve GRAPH --service-name NAME`; the graph's workers contain the engine."""
    texts = [text_of(word) for word in argv]
    index = texts.index("--service-name") + 1 if "--service-name" in texts else 0
    service = texts[index].lower() if 0 < index < len(texts) else ""
    if "worker" in service or "vllm" in service:
        return Serve("module", "dynamo serve", (), own_flags=True)
    return Unknown("dynamo serve", ())


def shell_name(argv: Argv) -> str:
    """The shell that runs a script: "sh", "bash"; empty if none is named."""
    return next((name for word in argv[:_NEAR] if (name := _name(word)) in _SHELLS), "")


_INSTALLERS = frozenset({"pip", "pip3", "uv", "conda", "mamba", "micromamba", "python", "python3", "poetry"})
_VLLM_PACKAGE = regex(
    r"vllm([\[=<>!~@ ].*)?|.*vllm[^/]*\.(whl|git.*|zip|tar\.gz)|git\+.*vllm.*|-r|--requirement|-e|--editable"
)


def installs_vllm(argv: Argv) -> bool:
    """True if it is `pip install vllm==…` or similar: from then on the image's tag does not show the release."""
    if not argv or _name(argv[0]) not in _INSTALLERS:
        return False
    texts = [text_of(word)[:500] for word in argv[1:_NEAR]]
    return "install" in texts and any(_VLLM_PACKAGE.fullmatch(text) for text in texts)


_ASIDE = regex(r"--(target|prefix|root|python|dry-run|user)\b|-[tp]$")
"""Options with which a package is installed for another Python than the one that runs vLLM."""


def release_installed(argv: Argv) -> str:
    """X of `pip install vllm==X`. Empty if the command names vLLM in another way too, or installs it for another
    Python."""
    if "/" in text_of(argv[0]) or any(_ASIDE.match(text_of(word)[:500]) for word in argv[1:_NEAR]):
        return ""
    texts = [text_of(word)[:500] for word in argv[1:_NEAR]]
    named = [text for text in texts if _VLLM_PACKAGE.fullmatch(text)]
    match = _VERSIONED.fullmatch(named[0]) if len(named) == 1 else None
    return match[1] if match else ""


_MANAGERS = frozenset(
    {"uv", "uvx", "pipx", "poetry", "pdm", "pipenv", "hatch", "rye", "pixi", "conda", "mamba", "micromamba"}
)
"""Wrappers that start a program in a Python environment that they choose or make."""


def brings(argv: Argv) -> Change | None:
    """The kind of change that such a wrapper makes: packages next to vLLM (`uv run --with PLUGIN vllm serve`), or
    another vLLM."""
    if _name(argv[0]) not in _WRAPPERS:
        return None
    names = [_name(word) for word in argv[:_NEAR]]
    at = next((n for n, name in enumerate(names) if name in _MANAGERS), None)
    if at is None:
        return None
    texts = [text_of(word) for word in argv[at + 1 : _NEAR]]
    if names[at] != "uv" or "run" not in texts[:1]:
        return "vllm"
    own = texts[: next((n for n, name in enumerate(names[at + 1 :]) if name == "vllm" or _PYTHONS.fullmatch(name)), 0)]
    packages = [text.partition("=")[2] or after for text, after in itertools.pairwise([*own, ""]) if "--with" in text]
    if any(_VLLM_PACKAGE.fullmatch(text) for text in packages) or any("--with-" in text for text in own):
        return "vllm"
    return None if "--no-project" in own and not packages else "packages"  # a project has an environment of its own


def release_brought(argv: Argv) -> str:
    """The release of vLLM that such a wrapper is asked to install; empty if the command does not name one."""
    texts = [text_of(word) for word in argv[:_NEAR]]
    named = [match[1] for text in texts if (match := _VERSIONED.fullmatch(text)) is not None]
    return named[0] if named else ""
