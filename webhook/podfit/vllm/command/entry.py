"""An argv → what it starts: a vLLM server, a worker that joins one, another shell, or another program."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from podfit.base.lazy import regex
from podfit.vllm.command.word import Change, Slip, Value, known, literal, mystery, text_of, texts_of

Argv = Sequence[Value]
"""A program and its arguments; the functions of this module get at least the program unless they say otherwise."""


class Serve(NamedTuple):
    """vLLM itself, or a program that wraps it and takes its arguments. Fields without a text: as in `Command`."""

    entry: str
    """"serve" or "module"."""
    program: str
    words: tuple[Value, ...]
    """The arguments."""
    own_flags: bool = False
    slip: Slip | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """A process that joins a Ray cluster, in which a leader may run vLLM."""


class Script(NamedTuple):
    """A shell with a script. Either `text` or `file` is None."""

    text: Value | None
    file: Value | None
    """The path of the file that contains it."""
    zero: Value | None
    """The script's `$0`; None: the shell's own name."""
    positional: tuple[Value, ...]
    """Its `$1`, `$2` and so on."""
    errexit: bool = False
    """It ends with the first command that fails (`sh -e`)."""


class Unknown(NamedTuple):
    """A program that the manifest does not describe, or one that certainly does not serve."""

    program: str
    """As written, or a description ("vllm bench", `A_SHELL`); empty without any word."""
    words: tuple[Value, ...]
    """Its arguments; empty if they do not matter."""
    reason: str = ""
    """Why the command that it starts is not read, for people: there are too many words before it."""


Start = Serve | Join | Script | Unknown

_MODULES = regex(r"vllm(_\w+)?\.entrypoints\.(\w+\.)*(api_server|run_batch|grpc_server|serve)")
_SERVER = "vllm.entrypoints.openai.api_server"
_MODULE_FILES = regex(r"(?:.*/)?(vllm/entrypoints/(?:\w+/)*(?:api_server|run_batch|grpc_server))\.py")
LONGEST_PATH = 4096
"""Bytes of a file's path, at most (Linux PATH_MAX)."""
_WRAPPING_MODULES = frozenset({"vllm_tgis_adapter", "dynamo.vllm", "huggingfaceserver"})
"""Modules that take vLLM's flags and some of their own."""
_WRAPPERS = frozenset({
    "exec", "command", "builtin", "time", "env", "nohup", "setsid", "nice", "ionice", "chrt", "taskset", "stdbuf",
    "timeout", "numactl", "tini", "tini-static", "dumb-init", "catatonit", "s6-setuidgid", "gosu", "su-exec", "sudo",
    "doas", "chroot", "unshare", "setpriv", "nsys", "ncu", "nvprof", "rocprof", "rocprofv3", "perf", "strace", "ltrace",
    "gdb", "valgrind", "py-spy", "scalene", "viztracer", "memray", "coverage", "uv", "uvx", "pipx", "poetry", "pdm",
    "pipenv", "hatch", "rye", "pixi", "conda", "mamba", "micromamba", "torchrun", "mpirun", "mpiexec", "srun",
    "accelerate", "ddtrace-run", "opentelemetry-instrument", "doppler", "op", "vault", "infisical", "chamber",
    "envconsul", "aws-vault", "xvfb-run", "catchsegv", "script", "unbuffer", "watchexec", "lmcache_frontend",
    "proxychains", "proxychains4", "newrelic-admin", "runuser", "dotenv", "direnv", "mise", "sops", "bwrap", "fixuid",
    "dockerize", "wait-for-it", "wait-for-it.sh", "wait-for", "entrypoint.sh", "flock", "prlimit", "rlwrap", "firejail",
    "systemd-run", "vault-env", "berglas", "summon", "with-contenv", "docker-entrypoint.sh", "nvidia_entrypoint.sh",
    "dockerd_entrypoint.sh", "dockerd-entrypoint.sh",
})  # fmt: skip
"""Programs that start the program in their arguments."""
_PYTHONS = regex(r"(python|pypy)[\d.]*")
_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh", "ksh", "busybox"})
A_SHELL = "a shell"
"""A shell that reads its script from its input."""
_DEEPEST = 8
"""Programs that start one another in one command line, at most: each of them goes through all words again."""
_NEAR = 64
"""Words behind a wrapper among which its program is looked for, without the variables that it sets. A choice: options
are few, and each of the words costs as much as a command."""
_NEAR_MODULE = 4 * _NEAR
"""Most words before the `-m MODULE` of another module, such as torchrun's options. One pass looks for it."""
_LONGEST_WORD = 500
"""Characters of a word in which a package is looked for."""
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
"""vLLM's subcommand → the entry point whose arguments it takes."""
_LEADER_SCRIPTS = regex(r"(multi[-_]node[-_]serving|ray[-_]init|run[-_]cluster|start[-_]ray|ray[-_]start)\w*\.sh")
_FLAG = regex(r"--[a-z-]+")
"""A flag instead of a program: the arguments for an image's entrypoint usually begin with one."""


def start(argv: Argv, depth: int = 0) -> Start:
    """The program that `argv`, which may be empty, starts behind all its wrappers; `depth`: as in `_named_start`."""
    if not argv:
        return Unknown("", ())
    first = text_of(argv[0])
    if first[:2] == "--" and _FLAG.fullmatch(first):
        return _module_later(argv) or Unknown(first, tuple(argv[1:]))
    started = _named_start(argv, depth)
    if started is None and _name(argv[0]) in _WRAPPERS:
        places = (n for n in range(1, len(argv)) if not _SETS.match(argv[n][0].text))
        started = _first_start(argv, itertools.islice(places, _NEAR), depth)
        if started is None and len(argv) > _NEAR:
            return Unknown(first, tuple(argv[1:]), TOO_FAR)
    elif started is None:
        started = _module_later(argv)
    return started or Unknown(first, tuple(argv[1:]))


def _first_start(argv: Argv, places: Iterable[int], depth: int) -> Start | None:
    """The start of the first program that podfit knows among the words at these places; None if there is none."""
    for place in places:
        started = _named_start(argv[place:], depth)
        if started is not None:
            return started
    return None


_TAKE_A_VALUE = ("-u", "--unset", "-C", "--chdir")
"""Options of `env` whose value is the next word (GNU coreutils 9.5, src/env.c)."""


def assignments(argv: Argv) -> dict[str, Value]:
    """The variables that `env A=b … command` or `sudo A=b … command` sets, by name; empty for other programs."""
    variables: dict[str, Value] = {}
    if _name(argv[0]) not in ("env", "sudo"):
        return variables
    for before, word in itertools.pairwise(argv):
        match = re.match(r"([A-Za-z_]\w*)=", word[0].text if word[0].unknown is None else "")
        if match is not None:
            first_piece = literal(word[0].text[match.end() :], word[0].path)
            variables[match[1]] = (*first_piece, *word[1:])
        elif not text_of(word).startswith("-") and text_of(before) not in _TAKE_A_VALUE:
            break  # the command itself
    return variables


def removals(argv: Argv) -> frozenset[str]:
    """The variables that `env -u A … command` removes, "*" for all (`env -i`). Empty for other programs or no words."""
    if not argv or _name(argv[0]) != "env":
        return frozenset()
    names: set[str] = set()
    for before, text in itertools.pairwise(texts_of(argv[:_NEAR])):
        if text in ("-", "-i", "--ignore-environment"):
            names.add("*")
        elif before in ("-u", "--unset"):
            names.add(text)
        elif match := re.fullmatch(r"(?:--unset=|-u)(\w+)", text):
            names.add(match[1])
        elif not text.startswith("-") and "=" not in text:
            break  # the command itself
    return frozenset(names)


_KEEP_VARIABLES = frozenset({"-E", "--preserve-env", "-m", "-p", "--preserve-environment"})
"""Options of sudo and su with which a command gets all variables."""


def may_reset(argv: Argv) -> bool:
    """True if it starts its command as another user, whose configuration may set or remove variables."""
    if _name(argv[0]) not in ("sudo", "su", "runuser", "doas"):
        return False
    return _KEEP_VARIABLES.isdisjoint(map(_name, argv[:_NEAR]))


def _name(word: Value) -> str:
    """A program's name: the part of the word after its last slash."""
    return text_of(word).rpartition("/")[2]


def _named_start(argv: Argv, depth: int) -> Start | None:
    """The start of the program that the first word names; None if podfit does not know it, or it is a wrapper.
    `depth`: how many programs have started one another so far."""
    if depth > _DEEPEST:
        return Unknown(text_of(argv[0]), tuple(argv[1:]), TOO_MANY)
    first, name = text_of(argv[0]), _name(argv[0])
    second = text_of(argv[1]) if len(argv) > 1 else ""
    if name == "env" and _SPLITS_A_STRING.match(second):
        return Unknown("env", tuple(argv[1:]), UNSPLIT)
    if "KUBERAY_GEN_RAY_START_CMD" in first:
        return Join()  # KubeRay's variable with the `ray start` of a worker
    if "vllm" in name and (name in ("vllm", "vllm-omni", "lmcache_vllm") or _VERSIONED.fullmatch(name)):
        return _cli(argv)
    if name[:2] == "py" and _PYTHONS.fullmatch(name):
        return _python(argv)
    if name == "busybox" and len(argv) > 1:  # `busybox sh -c …`, `busybox env …`
        return _shell(argv[1:]) if _name(argv[1]) in _SHELLS else start(argv[1:], depth + 1)
    if name in _SHELLS:
        return _shell(argv)
    if name == "ray" and second == "start":
        return _ray_start(argv)
    if name[-3:] == ".sh" and _LEADER_SCRIPTS.fullmatch(name):
        return _leader_script(argv)
    if name == "dynamo" and second == "serve":
        return _dynamo_serve(argv)
    if name in ("su", "runuser", "script", "flock"):
        return _login(argv, depth)
    if name == "xargs":
        return _xargs(argv, depth)
    if first == "-m":  # an interpreter is before it: `torchrun -m MODULE`, or the image's entrypoint
        module = _module(argv[1:])
        return module if isinstance(module, Serve) else None
    return None


def _ray_start(argv: Argv) -> Start:
    """`ray start --address …` joins a cluster; with `--head`, or without an address, it begins one."""
    options = texts_of(argv[2:])
    joins = "--head" not in options and any(option.startswith("--address") for option in options)
    return Join() if joins else Unknown("ray start --head", ())


def _login(argv: Argv, depth: int) -> Start | None:
    """`su USER -c SCRIPT`, `script -c SCRIPT FILE`, `runuser -u USER -- COMMAND`; None without `-c` and `--`."""
    texts = texts_of(argv[:_NEAR])
    for place, text in enumerate(texts, 1):
        if re.fullmatch(r"-[a-z]*c|--(session-)?command", text):
            if place < len(argv):
                return Script(argv[place], None, None, ())
            break
    return start(argv[texts.index("--") + 1 :], depth + 1) if "--" in texts[1:-1] else None


def _xargs(argv: Argv, depth: int) -> Start:
    """`… | xargs COMMAND`: the command gets further words, which are unknown."""
    started = _first_start(argv, range(1, min(len(argv), _NEAR)), depth + 1)
    if isinstance(started, Serve):
        return started._replace(words=(*started.words, mystery("", "xargs adds what it reads")))
    return Unknown("xargs", tuple(argv[1:]))


def _cli(argv: Argv) -> Start | None:
    """`vllm SUBCOMMAND …`; None if there is no subcommand, or neither vLLM nor podfit knows it."""
    if len(argv) < 2:
        return None
    subcommand, is_vllm = text_of(argv[1]), _name(argv[0]) == "vllm"
    if subcommand in _CLI:
        program = "vllm-omni" if _name(argv[0]) == "vllm-omni" else "vllm"
        return Serve(_CLI[subcommand], f"{program} {subcommand}", tuple(argv[2:]), own_flags=subcommand == "run-batch")
    if subcommand in _NOT_SERVING or subcommand[:1] == "-":
        return Unknown(f"vllm {subcommand}", ())
    return _slipped(argv) if is_vllm and known(argv[1]) is not None else None


def _slipped(argv: Argv) -> Serve | None:
    """`vllm server MODEL`, `vllm MODEL`, `vllm "serve MODEL"`: vLLM rejects it, but the author means `vllm serve`. None
    if the second word does not look like any of them."""
    text, path = text_of(argv[1]), argv[1][0].path
    subcommand, *arguments = split(text) or [""]
    if arguments and subcommand in _CLI:
        why = f"{text!r} is one word: no shell splits it, and vLLM has no such subcommand"
        slip = Slip(text, (subcommand, *arguments), why, path, unsplit=True)
        words = (*(literal(word, path) for word in arguments), *argv[2:])
        return Serve(_CLI[subcommand], f"vllm {subcommand}", words, own_flags=subcommand == "run-batch", slip=slip)
    why = f"vLLM has no subcommand {text!r}: invalid choice"
    if not arguments and is_misspelling(text, "serve"):
        return Serve("serve", "vllm serve", tuple(argv[2:]), slip=Slip(text, ("serve",), why, path))
    if re.fullmatch(r"[\w.-]+/[\w.-]+", text):
        return Serve("serve", "vllm serve", tuple(argv[1:]), slip=Slip(text, ("serve", text), why, path))
    return None


_MISSPELLED = 0.8
"""Similarity by difflib above which a word is taken for a misspelled one. A choice: `server` (0.91) and `serv` (0.89)
are misspellings of `serve`, `severe` (0.73) is not."""


def is_misspelling(text: str, meant: str) -> bool:
    """True if `text` is probably a misspelled `meant`. Texts of twice its length are not compared: that takes long."""
    from difflib import SequenceMatcher  # here, because few commands are misspelled

    return len(text) < 2 * len(meant) and SequenceMatcher(None, text, meant).ratio() > _MISSPELLED


_MOST_WORDS = 1000
"""Words of a command line in one word; twice as many as are read of a list (`reading._ITEMS`)."""
_LONGEST_LINE = 2048
"""Characters of a command line in one word whose quotes are read: `shlex` takes a microsecond for each."""


def split(line: str) -> list[str]:
    """The words into which a shell splits `line`. Of a long line, or one with an unclosed quote: at most a thousand
    words, split at blanks."""
    import shlex  # here, because few commands need it

    if len(line) <= _LONGEST_LINE:
        with contextlib.suppress(ValueError):  # an unclosed quote
            return shlex.split(line)
    return line.split(maxsplit=_MOST_WORDS)[:_MOST_WORDS]


def _python(argv: Argv) -> Start | None:
    """`python …`. Unknown for code (`-c`), other files and a bare interpreter; None: as in `_module` and `_cli`."""
    index = 1
    while index < len(argv):
        text, after = text_of(argv[index]), argv[index + 1 :]
        if text == "-c":
            return Unknown("python -c", ())
        if text in ("-X", "-W"):  # the next word is their value
            index += 2
        elif text.startswith("-m") and text != "-m":  # `-mMODULE`
            return _module([literal(text[2:]), *after])
        elif re.fullmatch(r"-[A-Za-z]*m", text):  # `-m MODULE`, `-um MODULE`
            return _module(after)
        elif text.startswith("-") and text != "-":
            index += 1
        elif _name(argv[index]) == "vllm":  # the path of vLLM's program
            return _cli(argv[index:])
        elif len(text) <= LONGEST_PATH and (file := _MODULE_FILES.fullmatch(text)) is not None:
            return _module([literal(file[1].replace("/", ".")), *after])
        else:
            return Unknown(text, tuple(after))
    return Unknown("python", ())


def _module(argv: Argv) -> Start | None:
    """`-m MODULE …`; `argv`: the module and its arguments. None if it is empty, or as in `_cli`."""
    if not argv:
        return None
    module, arguments = text_of(argv[0]).removesuffix(".__main__").removesuffix(".main"), tuple(argv[1:])
    if module in ("vllm.entrypoints.cli", "vllm.scripts", "vllm"):
        return _cli([literal("vllm"), *arguments])
    if _MODULES.fullmatch(module):
        return Serve("module", module, arguments, own_flags=module.endswith("run_batch"))
    if module in _WRAPPING_MODULES:
        return Serve("module", module, arguments, own_flags=True)
    if module.startswith("vllm.") and known(argv[0]) and is_misspelling(module, _SERVER):
        slip = Slip(module, (_SERVER,), f"vLLM has no module {module!r}", argv[0][0].path)
        return Serve("module", _SERVER, arguments, slip=slip)
    later = _module_later(arguments)  # python -m torch.distributed.run … -m vllm.entrypoints…
    return later or Unknown(module, arguments)


def _module_later(argv: Argv) -> Start | None:
    """The start of a vLLM module that another module runs (`torchrun … -m MODULE`); None if no near `-m` names one."""
    texts = texts_of(argv[: _NEAR_MODULE + 1])
    if "-m" not in texts:  # the usual case
        return None
    for place, (option, module) in enumerate(itertools.pairwise(texts), 1):
        if option == "-m" and (_MODULES.fullmatch(module) or module in _WRAPPING_MODULES):
            return _module(argv[place:])
    return None


def _shell(argv: Argv) -> Start:
    """`sh -c SCRIPT $0 $1 …`, `bash FILE …`; Unknown with the program `A_SHELL` if the script is the shell's input."""
    has_script = reads_input = errexit = False
    index = 1
    while index < len(argv):
        text = text_of(argv[index])
        if text in ("--", "-"):
            index += 1
            break
        if not re.match(r"[-+]\w|--\w", text):
            break
        takes_value = text in ("--rcfile", "--init-file")
        if not text.startswith("--"):
            has_script = has_script or "c" in text
            reads_input = reads_input or "s" in text
            errexit = errexit or (text[0] == "-" and "e" in text)
            takes_value = text.endswith(("o", "O"))  # -o pipefail, -euo pipefail
        index += 2 if takes_value else 1
    words = tuple(argv[index:])
    if not words or (reads_input and not has_script):
        return Unknown(A_SHELL, words)
    if has_script:
        return Script(words[0], None, words[1] if len(words) > 1 else None, words[2:], errexit)
    if _LEADER_SCRIPTS.fullmatch(_name(words[0])):
        return _leader_script(words)
    return Script(None, words[0], words[0], words[1:], errexit)


def _leader_script(argv: Argv) -> Start:
    """vLLM's examples/online_serving/multi-node-serving.sh and similar scripts: `leader` or `worker`."""
    joins = any(text_of(word) in ("worker", "--worker") for word in argv[1:])
    return Join() if joins else Unknown(text_of(argv[0]), ())


def _dynamo_serve(argv: Argv) -> Start:
    """Dynamo up to 0.3: `dynamo serve GRAPH --service-name NAME`; the graph's workers contain the engine."""
    for option, service in itertools.pairwise(texts_of(argv)):
        if option == "--service-name":
            if "worker" in service.lower() or "vllm" in service.lower():
                return Serve("module", "dynamo serve", (), own_flags=True)
            break
    return Unknown("dynamo serve", ())


def shell_name(argv: Argv) -> str:
    """The shell that runs a script, behind wrappers: "sh", "bash"; empty if none is named."""
    return next((name for word in argv[:_NEAR] if (name := _name(word)) in _SHELLS), "")


_INSTALLERS = frozenset({"pip", "pip3", "uv", "conda", "mamba", "micromamba", "python", "python3", "poetry"})
_VLLM_PACKAGE = regex(
    r"vllm([\[=<>!~@ ].*)?|.*vllm[^/]*\.(whl|git.*|zip|tar\.gz)|git\+.*vllm.*|-r|--requirement|-e|--editable"
)


def installs_vllm(argv: Argv) -> bool:
    """True if it is `pip install vllm==…` or similar: from then on the image's tag does not show the release. Also for
    `-r FILE` and `-e FOLDER`, which may install vLLM. False without any word."""
    if not argv or _name(argv[0]) not in _INSTALLERS:
        return False
    texts = _shortened(argv)
    return "install" in texts and any(_VLLM_PACKAGE.fullmatch(text) for text in texts)


_ASIDE = regex(r"--(target|prefix|root|python|dry-run|user)\b|-[tp]$")
"""Options with which a package is installed for another Python than the one that runs vLLM."""


def release_installed(argv: Argv) -> str:
    """X of `pip install vllm==X`. Empty if it also names vLLM in another way, or is for another Python."""
    texts = _shortened(argv)
    if "/" in text_of(argv[0]) or any(map(_ASIDE.match, texts)):
        return ""
    named = [text for text in texts if _VLLM_PACKAGE.fullmatch(text)]
    match = _VERSIONED.fullmatch(named[0]) if len(named) == 1 else None
    return match[1] if match else ""


def _shortened(argv: Argv) -> list[str]:
    """The arguments of an installer, as far as they are searched for packages."""
    return [text[:_LONGEST_WORD] for text in texts_of(argv[1:_NEAR])]


_MANAGERS = frozenset({
    "uv", "uvx", "pipx", "poetry", "pdm", "pipenv", "hatch", "rye", "pixi", "conda", "mamba", "micromamba",
})  # fmt: skip
"""Wrappers that start a program in a Python environment that they choose or make."""


def change_by_manager(argv: Argv) -> Change | None:
    """The change to the Python code if `argv` starts its program by one of the `_MANAGERS`; None if none is made.
    It is "vllm" if the program runs another vLLM than the image's, "packages" if there are more next to vLLM."""
    if _name(argv[0]) not in _WRAPPERS:
        return None
    names = [_name(word) for word in argv[:_NEAR]]
    at = next((place for place, name in enumerate(names) if name in _MANAGERS), None)
    if at is None:
        return None
    if names[at] == "uv" and texts_of(argv[at + 1 : _NEAR])[:1] == ["run"]:
        return _change_by_uv_run(argv[at + 1 : _NEAR])
    return "vllm"


def _change_by_uv_run(argv: Argv) -> Change | None:
    """As in `change_by_manager`, for `run OPTIONS vllm …` or `run OPTIONS python …` of uv."""
    options: list[str] = []  # empty, too, if the program is neither vLLM nor Python
    for place, name in enumerate(map(_name, argv)):
        if name == "vllm" or _PYTHONS.fullmatch(name):
            options = texts_of(argv[:place])
            break
    packages = []
    for option, after in itertools.pairwise([*options, ""]):
        if "--with" in option:
            packages.append(option.partition("=")[2] or after)
    if any(map(_VLLM_PACKAGE.fullmatch, packages)) or any("--with-" in option for option in options):
        return "vllm"  # also --with-requirements and --with-editable, whose packages are not known
    if "--no-project" in options and not packages:
        return None
    return "packages"  # without --no-project, from the project's own environment


def release_by_manager(argv: Argv) -> str:
    """The release of vLLM that one of the `_MANAGERS` is asked to install; empty if the command does not name one."""
    for text in texts_of(argv[:_NEAR]):
        if match := _VERSIONED.fullmatch(text):
            return match[1]
    return ""
