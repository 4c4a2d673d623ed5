"""A shell script → the commands it would run, with what is known of their words.

Nothing is executed: variables, functions, loops and branches are followed as far as their values are known. If a
condition is not known, every branch is followed, and the values in which they differ become unknown.

This module has statements and commands. `tree` is the grammar, `branch` and `loop` follow branches and loops,
`redirect` handles redirections. `condition` evaluates tests, `assign` and `builtin` change the state, `output` knows
what commands write, and `parameter` expands words.
"""

from __future__ import annotations

import contextlib
import functools
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from podfit.vllm.command import assign, branch, builtin, condition, loop, output, overwrite, redirect, tree
from podfit.vllm.command.expand import Environment
from podfit.vllm.command.flow import Break, Exit, Return, Status, either_of, negate
from podfit.vllm.command.parameter import WordExpander
from podfit.vllm.command.state import Array, ShellState, merge
from podfit.vllm.command.tree import TOO_MUCH, GiveUp, WorkLimit, only_command, source
from podfit.vllm.command.word import Change, Piece, Value, known, literal, mystery, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_WORDS = 1 << 14
"""Words of one command."""

_QUESTIONS = frozenset({"grep", "egrep", "pgrep", "which", "type", "cmp", "diff", "mountpoint", "curl", "nc", "lsmod"})
"""Commands whose purpose is their exit status."""
_IGNORED = frozenset({"wait", "ulimit", "umask", "hash", "alias", "unalias", "getopts", "pushd", "popd", "jobs"})
_SPECIAL = frozenset({".", ":", "eval", "export", "set", "shift"})
"""POSIX builtins for which an assignment before them is kept afterwards, except in bash."""
_ENDLESS = {"sleep": "infinity", "tail": "-f /dev/null"}
"""Commands that never end → their words."""
_SPACE = re.compile(r"\s+")


class Shell:
    """Walks scripts; `visit(argv, shell)` is called for every command other than a builtin or a function."""

    def __init__(
        self, state: ShellState, visit: Callable[[list[Value], Shell], None], parent: Shell | None = None
    ) -> None:
        self.state = state
        self.visit = visit
        self.environment: dict[str, Value] = {}
        """The environment of the command being visited."""
        self.stdin: Value | None = None
        """The input of the next command, if it is certain: a here-document, or what `echo` writes into the pipe."""
        self.exec = False
        """Whether the command being visited replaces the shell."""
        self._tail: tree.Tail | None = None
        self._node: Node | None = None
        self.depth: int = parent.depth + 1 if parent else 0
        self.budget: WorkLimit = parent.budget if parent else WorkLimit()
        """The work that the script may still cost; shared by the shell and its children."""
        self.detached = 0
        """Above 0: in the background, a pipe, or a subshell."""
        self.background = 0
        """Above 0: in a background command (`&`), for which the script does not wait."""
        self.failed = False
        """The visited command certainly fails; the visitor sets it for the commands after it."""
        self.followed = False
        """The visited command is a script whose writes are followed; set by the visitor."""
        self.branches = 0
        """Above 0: in a branch that may not be taken, or in a command whose failure is caught (`… || true`)."""
        self.choices: int = parent.choices if parent else 0
        """Above 0: in one of several branches, so that another one may be taken instead."""
        self.exits: bool = parent.conditional if parent else False
        """The script may already have ended with success."""
        self.skips = False
        """The function or the loop's body may already have ended."""
        self.returns: list[Status] = []
        """The statuses with which the function being called may already have ended."""
        self.marks = False
        """The script is read exactly as its field has it, so that a word's position in it is meaningful."""
        self.changes: set[Change] = parent.changes if parent else set()
        """What the script may have changed in the Python code; one set for the shell and its children."""
        self.blind = False
        """The commands being followed were visited before (`unseen`)."""
        self.locals: list[dict[str, Value | Array | None]] = []
        """For each function that is being called: its local variables, with their values before the call."""
        self.doubt: str | None = parent.doubt if parent else None
        """Why the shell may read the script in another way (`dialect`)."""
        self.elsewhere: bool = parent.elsewhere if parent else False
        """Whether the script has changed to another folder than the image starts in."""

    @property
    def conditional(self) -> bool:
        """Whether the command being visited may not run, or its failure may not be the script's."""
        return self.branches > 0 or self.exits or self.skips

    @property
    def branched(self) -> bool:
        """Whether the script may take another branch than the one to the command being visited."""
        return self.choices > 0 or self.exits or self.skips

    @property
    def last(self) -> tree.Tail | None:
        """The command that is being visited, if it is the last one of the whole script."""
        same = self.depth == 0 and self._tail is not None and self._tail.node == self._node
        return self._tail if same and not self.detached else None

    def child(self, positional: Sequence[Value] = (), zero: Value | None = None) -> Shell:
        """A new shell, started by this one."""
        state = self.copy()
        state.positional = list(positional)
        state.zero = zero or mystery("$0", "$0 is the shell's own name")
        exports = state.exports()
        state.functions, state.errexit, state.unexported = {}, False, None
        state.variables = {name: v for name, v in state.variables.items() if name in exports}
        return Shell(state, self.visit, self)

    def run(self, script: str) -> Status:
        """Follows a whole script; returns how it ends."""
        root = self.parse(script)
        alone = only_command(root)
        if self.depth == 0:
            self._tail = tree.tail(root)
        try:
            return self.block(root.children, alone)
        except Exit as end:
            return "no" if end.failed else "likely"
        except (Return, Break):
            return "likely"

    def parse(self, script: str) -> Node:
        """The tree of a script, with its placeholders as variables."""
        root, blanks = tree.parse(script, self.budget)
        self.state.variables.update(blanks)
        if root.has_error:
            self.doubt = self.doubt or "a part of the script is not understood"
        self.marks = self.marks and (root.text or b"") == script.encode(errors="replace")
        return root

    # ── statements ──

    def block(self, children: Sequence[Node], alone: bool = False) -> Status:
        """Follow statements one after the other, with the operators between them."""
        status: Status = "yes"
        for position, child in enumerate(children):
            if not child.is_named or child.type == "comment":
                continue
            following = children[position + 1].type if position + 1 < len(children) else ""
            if following == "&":
                self.background += 1
                try:
                    self.apart(functools.partial(self.statement, child))
                finally:
                    self.background -= 1
                status = "yes"
            else:
                status = self.statement(child, alone)
        return status

    def apart(self, run: Callable[[], Status]) -> Status:
        """Follow it in a process of its own: the variables that it sets are lost."""
        before, left = self.copy(), (self.exits, self.skips)
        self.detached += 1
        try:
            return run()
        except (Exit, Return, Break):
            return "likely"
        finally:
            self.detached -= 1
            self.exits, self.skips = left
            files = self.state.files
            self.state.__dict__.update(before.__dict__)
            self.state.files = files

    @contextlib.contextmanager
    def unseen(self, when: bool = True) -> Iterator[None]:
        """Follows commands that were visited before: the values that they set count, but `visit` is not called
        again."""
        visit, blind = self.visit, self.blind
        if when:
            self.visit, self.blind = lambda argv, shell: None, True
        try:
            yield
        finally:
            self.visit, self.blind = visit, blind

    def statement(self, node: Node, alone: bool = False) -> Status:
        """Follow one statement of any kind; `alone`: it is the whole script."""
        self.spend(10)
        with self.budget:
            if node.type == "command":
                return self.command(node, alone)
            if node.type == "redirected_statement":
                return redirect.statement(self, node, alone)
            method = _STATEMENTS.get(node.type)
            if method is not None:
                return method(self, node)
            # An unknown node, or one that the grammar could not parse: the commands in it may still run.
            return self.block(node.children) if node.children else "likely"

    def asked(self, condition: Sequence[Node]) -> Status:
        """Follows a condition. If it fails, the condition is false, and the script goes on."""
        self.branches += 1
        try:
            return self.block(condition)
        finally:
            self.branches -= 1

    def _pipeline(self, node: Node) -> Status:
        """Follow a pipeline; each command gets the output of the one before, and only certain output is known."""
        status: Status = "likely"
        before = self.stdin
        for child in node.children:
            if child.is_named and child.type != "comment":
                status = self.apart(functools.partial(self.statement, child))
                self.stdin = output.plain(self, child)
        self.stdin = before
        return "maybe" if status in ("yes", "no") else status

    def _subshell(self, node: Node) -> Status:
        self.apart(lambda: self.block(node.children))
        return "likely"

    def compound(self, node: Node) -> Status:
        """`{ …; }`, and `((…))`."""
        if node.children and node.children[0].type == "((":
            numbers = [self.words.arithmetic(child) for child in node.children if child.is_named]
            number = numbers[-1] if numbers else None
            return "maybe" if number is None else "yes" if number else "no"
        return self.block(node.children)

    def _negated_command(self, node: Node) -> Status:
        return negate(self.asked(node.children))

    def either(self, branches: Sequence[Callable[[], Status]], why: str) -> Status:
        """Follow every branch from the same state; afterwards, only what they have in common is known."""
        before, ends, jumps = self.state, list[ShellState](), list[tuple[ShellState, Return | Break]]()
        left = list[dict[str, Value | None]]()
        exits, skips, choices = self.exits, self.skips, self.choices
        for follow in branches:
            self.state = before.copy()
            self.spend(sum(len(v) for v in (before.positional, *before.variables.values())))
            self.branches += 1
            self.choices += len(branches) > 1
            try:
                follow()
                ends.append(self.state)
            except Exit as end:
                left.append(self.state.files)
                exits = exits or not end.failed
            except (Return, Break) as jump:
                jumps.append((self.state, jump))
                skips = True
                if isinstance(jump, Return):
                    self.returns.append(jump.status)
            finally:
                self.branches -= 1
                self.choices = choices
            exits, skips = exits or self.exits, skips or self.skips
        self.exits, self.skips = exits, skips
        self.state = before
        for files in left:  # the files of a subshell are also those of the shell around it
            before.unsettle(files)
        # The variables that a branch sets before a jump are kept at the target, where they may or may not be set.
        states = [*ends, *(state for state, _ in jumps)]
        if not states:
            raise Exit
        merged = functools.reduce(functools.partial(merge, why=_SPACE.sub(" ", why[:400])[:80]), states)
        before.__dict__.update(merged.__dict__)
        if not ends:
            raise jumps[0][1]  # `returns` has the function's status
        return "maybe"

    def _function_definition(self, node: Node) -> Status:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.state.functions[source(name)] = (body,)
        return "yes"

    @property
    def words(self) -> WordExpander:
        """The expander of words for the present state."""
        return WordExpander(self.state, functools.partial(output.substitute, self), self.budget)

    def spend(self, work: int) -> None:
        """Charge work; raises GiveUp if the script costs too much."""
        self.budget.spend(work)

    def copy(self) -> ShellState:
        """A copy of the state; its work is charged."""
        self.spend(len(self.state.variables) // 8)
        return self.state.copy()

    def argv(self, node: Node) -> list[Value]:
        """The words of a command."""
        words = self.words
        argv: list[Value] = []
        for position, child in enumerate(node.children):
            if node.field_name_for_child(position) in ("name", "argument"):
                argv += self._marked(child, words.fields(child))
                if len(argv) > MAX_WORDS:
                    raise GiveUp(TOO_MUCH)
        return argv

    def _marked(self, node: Node, fields: list[Value]) -> list[Value]:
        """A word's fields, with the word's position in the script if nothing in it is expanded."""
        if not self.marks or self.depth or len(fields) != 1 or len(fields[0]) != 1 or not tree.is_literal(node):
            return fields
        only = fields[0][0]
        return [(Piece(only.text, only.path, only.unknown, (node.start_byte, node.end_byte)),)]

    def command(self, node: Node, alone: bool = False, more: Sequence[Node] = ()) -> Status:
        """Follow a simple command; `more`: words of it that the grammar assigned to another node."""
        self._node = node
        argv = self.argv(node)
        argv += [field for word in more for field in self.words.fields(word)]
        assignments = [child for child in node.children if child.type == "variable_assignment"]
        prefix: dict[str, Value] = {}
        for child in assignments:
            name = child.child_by_field_name("name")
            if name is not None:
                prefix[source(name)] = self.words.scalar(child.child_by_field_name("value"))
        if not argv:
            self.state.variables.update(prefix)
            return "yes"
        before, self.stdin = self.stdin, output.given(self, node) or self.stdin
        try:
            return self.invoke(argv, prefix, alone)
        finally:
            self.stdin = before

    def invoke(self, argv: list[Value], prefix: dict[str, Value], alone: bool = False) -> Status:
        """Follow one simple command: a function, a builtin, or a program."""
        self.spend(10)
        name = text_of(argv[0])
        if name in self.state.functions:
            calls = [functools.partial(self._call, body, argv, prefix) for body in self.state.functions[name]]
            return calls[0]() if len(calls) == 1 else self.either(calls, f"which {name} is defined")
        if name in builtin.BUILTINS:
            if name in _SPECIAL:
                self.state.forget(prefix, f"bash and sh differ in whether `A=b {name}` keeps A")
            with self._given(prefix):
                return builtin.BUILTINS[name](self, argv[1:])
        if name in _IGNORED:
            return "likely"
        if name in _ENDLESS and _ENDLESS[name] == " ".join(map(text_of, argv[1:3])):
            raise Exit
        if name == "exec":
            rest = _after_options(argv[1:])
            if not rest:
                return "yes"
            raise Exit(failed=self._program(rest, prefix, replaces=self.detached == 0))
        if self._program(argv, prefix, replaces=alone and self.detached == 0):
            if self.state.errexit and not (self.detached or self.branches):
                raise Exit(failed=True)
            return "no"
        if name in _QUESTIONS:
            return "maybe"
        if name == "command":
            return "maybe" if len(argv) > 1 and text_of(argv[1]) in ("-v", "-V") else "likely"
        return "likely"

    @contextlib.contextmanager
    def _given(self, prefix: dict[str, Value]) -> Iterator[None]:
        """Set the prefix of `IFS=, read …`: a separator for only one builtin."""
        before = self.state.variables.get("IFS")
        if "IFS" in prefix:
            self.state.variables["IFS"] = prefix["IFS"]
        try:
            yield
        finally:
            if "IFS" in prefix:
                self.state.variables.pop("IFS", None)
                if before is not None:
                    self.state.variables["IFS"] = before

    def _program(self, argv: list[Value], prefix: dict[str, Value], *, replaces: bool) -> bool:
        """Start a program; returns whether it certainly fails."""
        variables = self.state.variables
        exported = {n: v for n in self.state.exports() if isinstance(v := variables.get(n), tuple)}
        self.environment = {**exported, **prefix}
        self.exec, self.failed = replaces, False
        self.followed = False
        self.visit(argv, self)
        if not self.followed:
            overwrite.by_program(self, argv)
        return self.failed

    def _call(self, body: Node | None, argv: list[Value], prefix: dict[str, Value]) -> Status:
        """Follow a function's body with its own positional parameters, and the variables set before its name."""
        if body is None:
            return "maybe"  # a program of this name, or an error
        skips, returns, self.returns = self.skips, self.returns, []
        before = self.copy()
        self.state.positional = argv[1:]
        self.locals.append({name: self.state.variables.get(name) for name in prefix})
        self.state.variables.update(prefix)
        self.state.exported |= prefix.keys()
        try:
            with self.deeper():
                return either_of([self.statement(body), *self.returns])
        except Return as end:
            return either_of([end.status, *self.returns])
        finally:
            self.returns = returns
            self.state.exported -= prefix.keys() - before.exported
            for name, value in self.locals.pop().items():
                self.state.variables.pop(name, None)
                if value is not None:
                    self.state.variables[name] = value
            self.state.positional = before.positional
            if self.skips > skips:
                self.state.forget(self.state.changed(before), f"{text_of(argv[0])} may have ended before")
                self.state.unsettle(before.files)
            self.skips = skips

    @contextlib.contextmanager
    def deeper(self) -> Iterator[None]:
        """Go one level deeper, into a function or another text."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def file(self, path: str) -> str | None:
        """The text of a file from the manifest or written by the script; None if a part of it is unknown."""
        text = self.contents(path)
        return known(text) if text is not None else None

    def contents(self, path: str) -> Value | None:
        """The same, with its unknown parts; None if the file is unknown."""
        files = self.state.files
        path = posixpath.normpath(path)
        if path in files:
            return files[path]
        self.spend(len(files) // 4)
        # Relative to an unknown directory: use the only file whose path ends with it.
        ends = [text for name, text in files.items() if name.endswith("/" + path)] if path[:1] != "/" else []
        return ends[0] if len(ends) == 1 else None


_STATEMENTS: Mapping[str, Callable[[Shell, Node], Status]] = {
    "list": branch.and_or,
    "pipeline": Shell._pipeline,
    "subshell": Shell._subshell,
    "compound_statement": Shell.compound,
    "do_group": Shell.compound,
    "negated_command": Shell._negated_command,
    "function_definition": Shell._function_definition,
    "comment": lambda shell, node: "yes",
    "if_statement": branch.if_statement,
    "case_statement": branch.case_statement,
    "for_statement": loop.for_statement,
    "select_statement": loop.for_statement,
    "c_style_for_statement": loop.c_style_for_statement,
    "while_statement": loop.while_statement,
    "variable_assignment": assign.assignment,
    "variable_assignments": lambda shell, node: shell.block(node.children),
    "declaration_command": assign.declaration,
    "unset_command": assign.unset,
    "test_command": condition.command,
}
"""Kind of node → the method that follows it."""


def shell(
    environment: Environment,
    files: dict[str, str],
    visit: Callable[[list[Value], Shell], None],
    whole: WorkLimit | None = None,
) -> Shell:
    """A new shell in a container. `whole`: the work that all scripts of the object may cost."""
    values: dict[str, Value | Array] = dict(environment)
    texts: dict[str, Value | None] = {path: literal(text) for path, text in files.items()}
    state = ShellState(
        variables=values, exported=set(values), files=texts, mounted=frozenset(files), rest=environment.rest
    )
    made = Shell(state, visit)
    made.budget.whole = whole
    return made


def _after_options(argv: list[Value]) -> list[Value]:
    """`exec -a name command …` → command …"""
    while argv and text_of(argv[0]).startswith("-"):
        argv = argv[2:] if text_of(argv[0]) == "-a" else argv[1:]
    return argv
