"""A shell script → the commands it would run, with what is known of their words.

Nothing is executed. The top level is followed in order: assignments, `export`, `cd`, `set --`, lists, groups, pipes,
`sh -c TEXT`, and a here-document that a later command runs. A compound statement (`if`, `for`, `while`, `case`, a
function, `eval`, `source`) is opaque. Each of its parts is searched for servers. Afterwards, what it may assign or
write is unknown.

`tree` is the grammar, `parameter` expands words, `assign` and `builtin` change the state, and `redirect` follows files.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from podfit.base.lazy import regex
from podfit.vllm.command import assign, builtin, changes, handed, python, redirect, tree
from podfit.vllm.command.expand import Environment
from podfit.vllm.command.parameter import DEFAULTED, WordExpander
from podfit.vllm.command.state import Array, Exit, ShellState, Status, Visited, contents
from podfit.vllm.command.tree import TOO_MUCH, GiveUp, WorkLimit, only_command, source
from podfit.vllm.command.word import Change, Piece, Value, joined_list, known, literal, mystery, reason_of, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_WORDS = 1 << 14
"""Words of one command."""

_QUESTIONS = frozenset({"grep", "egrep", "pgrep", "which", "type", "cmp", "diff", "mountpoint", "curl", "nc", "lsmod"})
"""Commands whose purpose is their exit status."""
_IGNORED = frozenset({"wait", "ulimit", "umask", "hash", "unalias", "pushd", "popd", "jobs", "break", "continue"})
_SPECIAL = frozenset({".", ":", "eval", "export", "set", "shift"})
"""POSIX builtins for which an assignment before them is kept afterwards, except in bash."""
_ENDLESS = {"sleep": "infinity", "tail": "-f /dev/null"}
"""Commands that never end → their words."""
_NOT_UNDERSTOOD = "a part of the script is not understood"
_SPACE = regex(r"\s+")
_SETS_PATHS = regex(r"/bin/activate$|/(conda|mamba)\.sh$|/(nvm|sdkman-init|setvars|vars)\.sh$")
"""Files of known programs that set PATH and variables of their own."""
_NAME = regex(r"[A-Za-z_]\w*")
_SIMPLE = frozenset({"command", "declaration_command", "variable_assignments"})
"""Kinds of nodes that are simple statements with several words."""
_LONGEST_SOURCE, _LONGEST_QUOTE, _LONGEST_ALIAS = 200, 60, 80
"""Characters of a statement that are read for a reason, and of it and of an alias that are quoted in a line."""


class Shell:
    """Walks scripts. The attributes describe the command being visited, or the place in the script. Counters go up on
    the way into a statement and down on the way out."""

    def __init__(self, state: ShellState, visit: Visitor, parent: Shell | None = None) -> None:
        self.state = state
        self.visit = visit
        self.environment: dict[str, Value] = {}
        """The environment of the command being visited."""
        self.stdin: Value | None = None
        """The here-document that is the input of the next command."""
        self.exec = False
        """True if the command being visited replaces the shell."""
        self._last: Node | None = None
        """The simple command that the whole script ends with (`tree.last_command`)."""
        self._node: Node | None = None
        """The simple command that is followed."""
        self.depth: int = parent.depth + 1 if parent else 0
        """Above 0: in a function, in a text that this shell reads (`eval`, `source`), or in a shell of the script."""
        self.budget: WorkLimit = parent.budget if parent else WorkLimit()
        """The work that the script may still cost; shared by the shell and its children."""
        self.detached = 0
        """Above 0: in the background, a pipe, or a subshell."""
        self.background = 0
        """Above 0: in a background command (`&`), for which the script does not wait."""
        self.caught = 0
        """Above 0: in a command whose failure is caught (`… || true`)."""
        self.opaque: int = parent.opaque if parent else 0
        """Above 0: in a compound statement, whose commands may not run."""
        self.exits: bool = parent.conditional if parent else False
        """The script may already have ended with success."""
        self.calls = 0
        """Above 0: in a function."""
        self.marks = False
        """The script is read exactly as its field has it, so that a word's position in it is meaningful."""
        self.changes: set[Change] = parent.changes if parent else set()
        """Changes that the script may have made to the Python code; one set for the shell and its children."""
        self.blind = False
        """The statements are followed only for the variables that they set, and once more later (`unseen`)."""
        self.doubt: str | None = parent.doubt if parent else None
        """Why the shell may read the script in another way (`dialect`)."""
        self.elsewhere: bool = parent.elsewhere if parent else False
        """True if the script has changed to another folder than the image starts in."""

    @property
    def conditional(self) -> bool:
        """True if the command being visited may not run, or its failure may not be the script's."""
        return self.caught > 0 or self.branched

    @property
    def branched(self) -> bool:
        """True if the script may take another branch than the one to the command being visited."""
        return self.opaque > 0 or self.exits

    @property
    def last(self) -> Node | None:
        """The command that is being visited, if it is the last one of the whole script."""
        return self._last if self._last == self._node and not (self.depth or self.detached) else None

    @property
    def words_cut_off(self) -> list[str]:
        """The words that the command being visited lacks, because it ends before them (`tree.words_cut_off`)."""
        return tree.words_cut_off(self._node) if self._node is not None else []

    def child(self, positional: Sequence[Value] = (), zero: Value | None = None) -> Shell:
        """A new shell that this one starts: it gets the exported variables, and no functions or options."""
        state = self.copy_of(self.state)
        state.positional = list(positional)
        state.zero = zero or mystery("$0", "$0 is the shell's own name")
        exports = state.exports()
        state.functions, state.errexit, state.unexported = {}, False, None
        state.variables = {name: v for name, v in state.variables.items() if name in exports}
        return Shell(state, self.visit, self)

    def run(self, script: str) -> Status:
        """Follow a whole script; returns how it ends."""
        root = self.parse(script)
        if self.depth == 0:
            self._last = tree.last_command(root)
        try:
            return self.block(root.children, only_command(root))
        except Exit as end:
            return "no" if end.failed else "likely"

    def parse(self, script: str) -> Node:
        """The tree of a script, with its placeholders as variables: then the positions in it have no meaning."""
        root, blanks = tree.parse(script, self.budget)
        self.state.variables.update(blanks)
        if root.has_error:
            self.doubt = self.doubt or _NOT_UNDERSTOOD
        self.marks = self.marks and (root.text or b"") == script.encode(errors="replace")
        return root

    # ── statements ──

    def block(self, children: Sequence[Node], alone: bool = False) -> Status:
        """Follow statements one after the other; returns how the last one ends. `alone`: as in `statement`."""
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
        """Follow a part of the script in a process of its own: what it sets is lost, and what it writes stays."""
        before, exits = self.copy_of(self.state), self.exits
        self.detached += 1
        try:
            return run()
        except Exit:
            return "likely"
        finally:
            self.detached -= 1
            self.exits = exits
            before.files = self.state.files
            self.state = before

    @contextlib.contextmanager
    def unseen(self) -> Iterator[None]:
        """Follows commands only for the variables that they set: `visit` is not called."""
        visit, blind = self.visit, self.blind
        self.visit, self.blind = lambda argv, shell: Visited(), True
        try:
            yield
        finally:
            self.visit, self.blind = visit, blind

    def statement(self, node: Node, alone: bool = False) -> Status:
        """Follow one statement; returns how it ends. `alone`: it is the whole script, and may replace the shell."""
        self.budget.spend(10)
        with self.budget:
            if node.type in _SIMPLE and b"$((" in (node.text or b""):
                return self._arithmetic(node, alone)
            if node.type == "command":
                return self.command(node, alone)
            if node.type == "redirected_statement":
                return self._redirected(node, alone)
            method = _STATEMENTS.get(node.type)
            if method is not None:
                return method(self, node)
            # An unknown node, or one that the grammar could not parse: the commands in it may still run.
            return self.block(node.children) if node.children else "likely"

    def _arithmetic(self, node: Node, alone: bool) -> Status:
        """Follow a simple statement that bash does not run if the arithmetic in it is an error."""
        before = self.copy_of(self.state)
        status = self.command(node, alone) if node.type == "command" else _STATEMENTS[node.type](self, node)
        self.state.may_be(before, "arithmetic in it may fail")
        return status

    def _pipeline(self, node: Node) -> Status:
        """`a | b`: each command runs in a subshell; the last one decides how it ends."""
        status: Status = "likely"
        for child in node.children:
            if child.is_named and child.type != "comment":
                before, self.stdin = self.stdin, None
                status = self.apart(functools.partial(self.statement, child))
                self.stdin = before
        return "likely" if status == "likely" else "maybe"

    def _subshell(self, node: Node) -> Status:
        """`( … )`: how it ends is not followed."""
        self.apart(lambda: self.block(node.children))
        return "likely"

    def _group(self, node: Node) -> Status:
        """`{ …; }`, and `((…))`."""
        if node.children and node.children[0].type == "((":
            return self._question(node)
        return self.block(node.children)

    def _question(self, node: Node) -> Status:
        """`[ … ]`, `[[ … ]]` and `((…))`: unknown, as are the variables that it may assign."""
        text = source(node)
        names = (_NAME if text.startswith("((") else DEFAULTED).findall(text)
        self.state.forget(names, "it is computed when the script runs")
        return "maybe"

    def _negated(self, node: Node) -> Status:
        """`! command`: its failure does not end the script."""
        self.caught += 1
        try:
            self.block(node.children)
        finally:
            self.caught -= 1
        return "maybe"

    def _list(self, node: Node) -> Status:
        """Follow `A && B || C`; returns how it ends. All on the left of an `||` may fail without ending the script."""
        first, chain = _chain(node)
        skipped: ShellState | None = None  # the state before the first B of `A && B` that is skipped if A fails
        before = self.caught
        self.caught += sum(link.operator == "||" for link in chain)
        try:
            status = self.statement(first) if chain else self.block(node.children)
            for operator, right in chain:
                if operator == "||":
                    self.caught -= 1
                    self._rejoin(skipped)
                    skipped = None
                elif status == "likely" and skipped is None:
                    skipped = self.copy_of(self.state)
                status = self._then(status, operator, right)
            return status
        finally:
            self.caught = before
            self._rejoin(skipped)

    def _then(self, status: Status, operator: str, right: Node) -> Status:
        """Follow `… && right` or `… || right` if the left side ended with `status`; returns how both end together."""
        skips_right: Status = "yes" if operator == "||" else "no"
        if status == skips_right:
            return status
        if status in ("yes", "no") or (status == "likely" and operator == "&&"):
            return self.statement(right)
        self.opaque_statement([[right]], f"how the command before {operator} ends")
        return "likely" if operator == "||" else "maybe"

    def _rejoin(self, skipped: ShellState | None) -> None:
        """Follow the commands after `A && B` also for an A that failed, so that B was skipped; None: B ran."""
        if skipped is not None:
            self.state.may_be(skipped, "it is set only if the commands before it succeed")

    # ── compound statements ──

    def opaque_statement(self, parts: Sequence[Sequence[Node]], why: str, *, repeats: bool = False) -> Status:
        """Follow the parts of a compound statement, each of which may run or not: what they change is unknown.
        `repeats`: a part may run several times, so it is followed in a state in which its own changes are unknown."""
        if repeats and not self.blind:
            with self.unseen():
                self.opaque_statement(parts, why)
        before, ends, exits = self.state, list[ShellState](), self.exits
        self.opaque += 1
        try:
            for part in parts:
                self.state = self.copy_of(before)
                try:
                    self.block(part)
                except Exit as end:
                    exits = exits or not end.failed
                ends.append(self.state)
                exits = exits or self.exits  # set by a nested statement
        finally:
            self.opaque -= 1
            self.state, self.exits = before, exits
        quoted = _SPACE.sub(" ", why[:_LONGEST_SOURCE])[:_LONGEST_QUOTE]
        for state in ends:
            self._note_environment(state)
            before.may_be(state, f"it depends on {quoted}")
        return "maybe"

    def _note_environment(self, state: ShellState) -> None:
        """Note the change to the Python code by the variables at one of the ends of a compound statement."""
        values = ((name, state.variables.get(name)) for name in python.READ_VARIABLES)
        change = python.by_variables({name: value for name, value in values if isinstance(value, tuple)})
        if change is not None:
            self.changes.add(change)

    def _if(self, node: Node) -> Status:
        """`if`: each branch as an alternative; the first one includes the condition."""
        parts: list[list[Node]] = [[]]
        for child in node.children:
            if child.type in ("elif_clause", "else_clause"):
                parts.append(child.children)
            else:
                parts[0].append(child)
        return self.opaque_statement(parts, source(node))

    def _case(self, node: Node) -> Status:
        """`case`: each item's statements as an alternative, without the patterns."""
        parts = []
        for item in (child for child in node.children if child.type == "case_item"):
            kinds = [child.type for child in item.children]
            closing = kinds.index(")") if ")" in kinds else 0
            parts.append(item.children[closing + 1 :])
        return self.opaque_statement(parts, source(node))

    def _loop(self, node: Node) -> Status:
        """`for`, `select`, `while` and `until`: the condition and the body."""
        body = node.child_by_field_name("body")
        if body is None:
            return "maybe"
        variable = node.child_by_field_name("variable")
        if variable is not None:
            self.state.forget([source(variable)], "it is set by a loop")
        elif node.type == "c_style_for_statement":
            head = (node.text or b"")[: body.start_byte - node.start_byte].decode(errors="replace")
            self.state.forget(_NAME.findall(head), "it is set by a loop")
        condition = node.children_by_field_name("condition") if node.type == "while_statement" else []
        return self.opaque_statement([[*condition, body]], source(node), repeats=True)

    def _function_definition(self, node: Node) -> Status:
        """`name() { … }`: the body is followed when the function is called."""
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.state.functions[source(name)] = (body,)
        return "yes"

    def _call(self, name: str, positional: list[Value], prefix: dict[str, Value]) -> Status:
        """Follow a function's bodies, each of which may be the present one. `prefix`: `A=b` before its name."""
        self.state.forget(prefix, f"it is set for {name}")
        before, self.state.positional = self.state.positional, positional
        self.calls += 1
        self.depth += 1
        try:
            return self.opaque_statement([[body] for body in self.state.functions[name]], name)
        finally:
            self.depth -= 1
            self.calls -= 1
            self.state.positional = before

    def _eval(self, argv: list[Value]) -> Status:
        """`eval`: follow the joined words; if one of them is unknown, so are all variables after it."""
        self._follow_text(joined_list(argv), "eval")
        if any(reason_of(word) is not None for word in argv):
            self.state.forget_all(f"eval {' '.join(map(text_of, argv))} may set any variable")
        return "likely"

    def _source(self, argv: list[Value]) -> Status:
        """`source FILE`: follow a known file. An unknown one may set any variable, unless it only sets paths."""
        path = known(argv[0]) if argv else None
        text = self.contents(path) if path else None
        if text is not None:
            self._follow_text(text, path or "")
        else:
            self.changes.add(changes.sourced(path))
            if path is None or not _SETS_PATHS.search(path):
                self.state.forget_all(f"{path or 'a file'} may set any variable when it is sourced")
        return "likely"

    def _follow_text(self, text: Value, name: str) -> None:
        """Follow a text that the shell itself reads (`eval`, `source`)."""
        script, doubt = handed.to_itself(text), self.doubt
        self.state.variables.update(script.variables)
        self.doubt = doubt or script.doubt
        self.depth += 1
        try:
            self.opaque_statement([self.parse(script.text).children], name)
        finally:
            self.depth -= 1
            self.doubt = doubt

    # ── commands ──

    @property
    def words(self) -> WordExpander:
        """The expander of words for the present state."""
        return WordExpander(self.state, self.budget)

    def copy_of(self, state: ShellState) -> ShellState:
        """A copy of a state; its work is charged."""
        self.budget.spend(len(state.variables) // 8)
        return state.copy()

    def argv(self, node: Node) -> list[Value]:
        """The words that a command expands to, without assignments before it."""
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

    def _redirected(self, node: Node, alone: bool) -> Status:
        """Follow a statement with its input, the files that it writes, and the rest of its line (`cat <<EOF | sh`)."""
        body = node.child_by_field_name("body")
        redirects = node.children_by_field_name("redirect")
        before, self.stdin = self.stdin, redirect.heredoc_of(self.words, node) or self.stdin
        files = dict(self.state.files) if body is not None and body.type == "list" else None
        try:
            if body is None:
                status = self.block(node.children)
            elif body.type == "command":
                status = self.command(body, alone, redirect.words_behind(redirects))
            else:
                status = self.statement(body, alone)
        finally:
            self.stdin = before
        writer = body
        while writer is not None and writer.type == "list" and writer.children:
            writer = writer.children[-1]
        redirect.write(self.words, node, self.argv(writer) if writer is not None and writer.type == "command" else [])
        if files is not None and (status in ("maybe", "no") or b"||" in (node.text or b"")):
            self.state.unsettle(files)  # `A && B > FILE`: B may not run
        for redirection in redirects:
            if redirection.type == "heredoc_redirect":
                pipelines = [child for child in redirection.children if child.type == "pipeline"]
                for statement in (*redirection.children_by_field_name("right"), *pipelines):
                    status = self.statement(statement)
        return status

    def command(self, node: Node, alone: bool = False, more: Sequence[Node] = ()) -> Status:
        """Follow a simple command; returns how it ends. `alone`: as in `statement`. `more`: words in other nodes."""
        self._node = node
        argv = self.argv(node)
        argv += [field for word in more for field in self.words.fields(word)]
        kinds = [child.type for child in node.children]
        before = kinds[: kinds.index("command_name")] if "command_name" in kinds else []
        if "herestring_redirect" in before or "file_redirect" in before:
            self.doubt = self.doubt or _NOT_UNDERSTOOD  # the grammar joins the next line to `A=b > FILE`
        assignments = [child for child in node.children if child.type == "variable_assignment"]
        if not argv:
            for child in assignments:
                assign.assignment(self.words, child)
            return "yes"
        prefix: dict[str, Value] = {}
        for child in assignments:
            named, value = child.child_by_field_name("name"), child.child_by_field_name("value")
            if named is not None and not (value is not None and value.type == "array"):
                prefix[source(named)] = self.words.scalar(value)
        if reason_of(argv[0]) is not None:
            self.state.forget(prefix, "it is kept if the command behind it expands to nothing")
        return self.invoke(argv, prefix, alone)

    def invoke(self, argv: list[Value], prefix: dict[str, Value], alone: bool = False) -> Status:
        """Follow a function, a builtin or a program; returns how it ends. `prefix`: the variables of `A=b command`."""
        self.budget.spend(10)
        name = text_of(argv[0])
        if name in self.state.functions:
            return self._call(name, argv[1:], prefix)
        if name in _SPECIAL:
            self.state.forget(prefix, f"bash and sh differ in whether `A=b {name}` keeps A")
        if name in _OWN:
            return _OWN[name](self, argv[1:])
        if name in builtin.BUILTINS:
            return builtin.BUILTINS[name](self.state, argv[1:])
        if name in _IGNORED:
            return "likely"
        if name in _ENDLESS and _ENDLESS[name] == " ".join(map(text_of, argv[1:3])):
            raise Exit
        if name == "exec":
            program = _after_options(argv[1:])
            if not program:
                return "yes"  # it only redirects
            raise Exit(failed=self._program(program, prefix, replaces=self.detached == 0))
        if self._program(argv, prefix, replaces=alone and self.detached == 0):
            if self.state.errexit and not (self.detached or self.caught or self.opaque):
                raise Exit(failed=True)
            return "no"
        if name in _QUESTIONS:
            return "maybe"
        if name == "command":
            return "maybe" if len(argv) > 1 and text_of(argv[1]) in ("-v", "-V") else "likely"
        return "likely"

    def _program(self, argv: list[Value], prefix: dict[str, Value], *, replaces: bool) -> bool:
        """Visit a program; returns whether it certainly fails. `replaces`: it replaces the shell."""
        variables = self.state.variables
        exported = {n: v for n in self.state.exports() if isinstance(v := variables.get(n), tuple)}
        self.environment, self.exec = {**exported, **prefix}, replaces
        visited = self.visit(argv, self)
        if not visited.follows_writes:
            redirect.overwrite(self.words, argv, self.stdin)
        return visited.fails

    def _cd(self, argv: list[Value]) -> Status:
        """`cd FOLDER`; an unknown folder counts as another one."""
        to = argv[-1] if argv else None
        self.elsewhere = self.elsewhere or python.went_elsewhere(known(to) if to is not None else None)
        return "likely"

    def _return(self, _: list[Value]) -> Status:
        """End a function or a sourced file; outside of both, dash ends the script."""
        self.exits = self.exits or not self.depth
        return "maybe"

    def _alias(self, argv: list[Value]) -> Status:
        """`alias NAME=TEXT`: aliases are not expanded, so all that follows is in doubt."""
        if argv:
            self.doubt = self.doubt or f"the alias {text_of(argv[-1])[:_LONGEST_ALIAS]} may replace a command"
        return "likely"

    def contents(self, path: str) -> Value | None:
        """The text of a file, with its unknown parts; None if the file is unknown."""
        self.budget.spend(len(self.state.files) // 4)
        return contents(self.state.files, path)

    def file(self, path: str) -> str | None:
        """The text of a file from the manifest or written by the script; None if a part of it is unknown."""
        text = self.contents(path)
        return known(text) if text is not None else None


_STATEMENTS: Mapping[str, Callable[[Shell, Node], Status]] = {
    "list": Shell._list,
    "pipeline": Shell._pipeline,
    "subshell": Shell._subshell,
    "compound_statement": Shell._group,
    "do_group": Shell._group,
    "negated_command": Shell._negated,
    "function_definition": Shell._function_definition,
    "comment": lambda shell, node: "yes",
    "if_statement": Shell._if,
    "case_statement": Shell._case,
    **dict.fromkeys(("for_statement", "select_statement", "c_style_for_statement", "while_statement"), Shell._loop),
    "variable_assignment": lambda shell, node: assign.assignment(shell.words, node),
    "variable_assignments": lambda shell, node: shell.block(node.children),
    "declaration_command": lambda shell, node: assign.declaration(shell.words, node, shell.calls > 0),
    "unset_command": lambda shell, node: assign.unset(shell.words, node),
    "test_command": Shell._question,
}
"""Kind of node → the method that follows it."""
_OWN: Mapping[str, Callable[[Shell, list[Value]], Status]] = {
    ".": Shell._source,
    "source": Shell._source,
    "eval": Shell._eval,
    "cd": Shell._cd,
    "alias": Shell._alias,
    "return": Shell._return,
}
"""Builtins that change more than the state."""


Visitor = Callable[[list[Value], Shell], Visited]
"""Gets each command other than a builtin or a function, and the shell in its state before the command."""


def shell(
    environment: Environment, files: dict[str, str], visit: Visitor, work_limit: WorkLimit | None = None
) -> Shell:
    """A new shell in a container. `files`: path → text. `work_limit`: of all scripts of the object."""
    values: dict[str, Value | Array] = dict(environment)
    texts: dict[str, Value | None] = {path: literal(text) for path, text in files.items()}
    state = ShellState(
        variables=values, exported=set(values), files=texts, mounted=frozenset(files), rest=environment.rest
    )
    new_shell = Shell(state, visit)
    new_shell.budget.object_limit = work_limit
    return new_shell


class _Link(NamedTuple):
    """An operator of a list, and the command on its right."""

    operator: str
    right: Node


def _chain(node: Node) -> tuple[Node, list[_Link]]:
    """The first command of `A && B || C`, and the links after it; the node and no links if it is another statement. In
    the grammar, the left side of each operator has all that comes before."""
    links: list[_Link] = []
    while node.type == "list" and len(named := [child for child in node.children if child.is_named]) == 2:
        operators = [child.type for child in node.children if child.type in ("&&", "||")]
        links.append(_Link(operators[0] if operators else "&&", named[1]))
        node = named[0]
    return node, links[::-1]


def _after_options(argv: list[Value]) -> list[Value]:
    """`exec -a name command …` → command …"""
    while argv and text_of(argv[0]).startswith("-"):
        argv = argv[2:] if text_of(argv[0]) == "-a" else argv[1:]
    return argv
