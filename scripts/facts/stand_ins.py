"""Builds vLLM's own argument parser from a wheel's Python sources, without torch, CUDA or a GPU.

    python -m scripts.facts.stand_ins FOLDER    # the folder that holds vllm/

vLLM's modules run as they are. A stand-in replaces a missing library, or a module that can't be imported without
one. Each attribute of it is a class that takes any arguments. The modules that make the parser are never
replaced. It needs a process of its own, because it changes how that process imports.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.metadata
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Union

from podfit.cli.support import read_parser

REAL = ("vllm.config", "vllm.engine", "vllm.entrypoints.common.cli_args", "vllm.entrypoints.launchers.cli_args",
        "vllm.entrypoints.openai.cli_args", "vllm.utils.argparse_utils")  # fmt: skip
"""Modules that make the parser: if one fails, so does the reading."""
ABSENT = ("amdsmi", "intel_extension_for_pytorch", "libtpu", "triton")
"""Libraries by whose presence vLLM chooses its platform."""
VERSION = "99.0.0"
"""The version of every library that is not installed; vLLM asks for the least that it works with."""


class StandIn(type):
    """A class that is anything: a base, a decorator, a type in an annotation, a number."""

    def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any], **_: Any) -> StandIn:
        return super().__new__(mcs, name, bases, space)

    def __init__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any], **_: Any) -> None:
        super().__init__(name, bases, space)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(f"{cls.__module__}.{cls.__name__}", name)

    def __or__(cls, other: Any) -> Any:
        return Union[cls, other]  # noqa: UP007 - `|` is what is defined here

    def __ror__(cls, other: Any) -> Any:
        return Union[other, cls]  # noqa: UP007

    def _itself(cls, *_: Any) -> StandIn:
        return cls

    __getitem__ = __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __truediv__ = __enter__ = _itself

    def __exit__(cls, *_: object) -> None:
        return None

    def __iter__(cls) -> Any:
        return iter(())

    def __contains__(cls, _: object) -> bool:
        return False

    def __bool__(cls) -> bool:
        return False

    def __int__(cls) -> int:
        return 0

    __index__ = __len__ = __int__

    def __lt__(cls, _: object) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__


_MADE: dict[tuple[str, str], StandIn] = {}


def stand_in(module: str, name: str) -> StandIn:
    """The stand-in of this name, always the same."""
    if (module, name) not in _MADE:
        space = {
            "__module__": module,
            "__new__": _instance,
            "__init__": lambda self, *args, **kwargs: None,
            "__init_subclass__": classmethod(lambda cls, **kwargs: None),
            "__get_pydantic_core_schema__": classmethod(lambda cls, source, handler: {"type": "any"}),
        }
        _MADE[module, name] = StandIn(name, (), space)
    return _MADE[module, name]


def _instance(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A call: of a decorator, what it decorates; of a stand-in, itself; of a subclass of vLLM's, an instance."""
    if cls not in _MADE.values():
        return object.__new__(cls)
    decorated = len(args) == 1 and not kwargs and isinstance(args[0], FunctionType | type)
    return args[0] if decorated and not isinstance(args[0], StandIn) else cls


class StandInModule(ModuleType):
    """A module with any attribute."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return VERSION
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(self.__name__, name)


class Tolerant(importlib.abc.Loader):
    """Runs a module of vLLM; one that fails becomes a stand-in."""

    def __init__(self, real: importlib.abc.Loader, failed: list[str]) -> None:
        self.real = real
        self.failed = failed

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """As the real loader does."""
        return self.real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Runs it, or puts a stand-in into its place."""
        try:
            self.real.exec_module(module)
        except Exception as error:
            self.failed.append(f"{module.__name__}: {type(error).__name__}: {error}")
            module.__class__ = StandInModule


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what is installed, vLLM's sources, and a stand-in for everything else."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, or a stand-in's."""
        top = fullname.partition(".")[0]
        if top in sys.stdlib_module_names or top in ABSENT:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        if found is not None or fullname.startswith(REAL):
            if found is not None and found.loader is not None and top == "vllm" and not fullname.startswith(REAL):
                found.loader = Tolerant(found.loader, self.failed)
            return found
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """A stand-in."""
        return StandInModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs."""
        module.__path__ = []


def _versions(real: Callable[[str], str]) -> Any:
    """Versions of distributions: vLLM is a build for processors, the platform that needs no device."""

    def version(name: str) -> str:
        if name == "vllm":
            return "0+cpu"
        try:
            return real(name)
        except importlib.metadata.PackageNotFoundError:
            return VERSION

    return version


def main(folder: Path) -> None:
    """Prints the options as `podfit releases script` does."""
    finder = Finder()
    sys.meta_path.insert(0, finder)
    sys.modules.setdefault("regex", re)
    importlib.metadata.version = _versions(importlib.metadata.version)
    sys.path.insert(0, str(folder))
    read_parser.main()
    for line in finder.failed:
        print(f"stand-in for {line}", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
