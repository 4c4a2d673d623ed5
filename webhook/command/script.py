"""A shell script → the commands it would run, with what can be known of their words.

The grammar is tree-sitter-bash's. Nothing is executed: variables, functions, loops and branches are followed as far
as their values are known. Where a condition is not known, every branch is followed and what they disagree on becomes
unknown.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import posixpath
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from webhook.command.expand import Environment
from webhook.command.parameter import Words, source
from webhook.command.state import Array, State, merge
from webhook.command.word import Piece, Value, known, literal, mystery, text_of

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

Status = Literal["yes", "no", "likely", "maybe"]
"""How a command ends: certainly well or badly; an ordinary one "likely" well; a question "maybe"."""

WORK = 100_000
"""How far one script is followed: a command costs 10, each of its words 1. A start script has a few dozen commands."""
SIZE = 1 << 14
"""Characters of a script; larger ones are not read, for every one costs an admission request its time."""
_STEP = 30
"""What a hundred steps of the parser cost. Among errors they cost half the text so far, which each one goes through."""
WORDS = 1 << 14
"""Words of one command."""
_ITERATIONS = 64
_DEPTH = 40

_QUESTIONS = frozenset({"grep", "egrep", "pgrep", "which", "type", "cmp", "diff", "mountpoint", "curl", "nc", "lsmod"})
"""Commands that are run for their exit status."""
_IGNORED = frozenset(
    {"cd", "wait", "trap", "ulimit", "umask", "hash", "alias", "unalias", "getopts", "pushd", "popd", "shopt", "jobs"}
)
_SPACE = re.compile(r"\s+")
_BLANKS = re.compile(rb"(?<=[\s=])<[A-Za-z][\w -]*>(?=\s|$)|\{\{[^{}\n]*\}\}")
"""`<MODEL>` and `{{ .Values.model }}`."""


class Exit(Exception):  # noqa: N818 - a way out of the walk, not an error
    """The script ends here."""

    def __init__(self, *, failed: bool = False) -> None:
        self.failed = failed
        """With an exit status that is no success."""


class _Return(Exception):  # noqa: N818
    """The function ends here."""


class _Break(Exception):  # noqa: N818
    """The loop's body ends here."""


class GiveUp(Exception):  # noqa: N818
    """The script is too large to be followed."""


@functools.cache
def _grammar() -> Language:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


def _parser() -> Parser:
    """A parser of one's own: it holds state, and the server's threads parse at the same time."""
    import tree_sitter

    return tree_sitter.Parser(_grammar())


class Shell:
    """Walks scripts; `visit(argv, shell)` is called for every command that is no builtin or function."""

    def __init__(self, state: State, visit: Callable[[list[Value], Shell], None], parent: Shell | None = None) -> None:
        self.state = state
        self.visit = visit
        self.environment: dict[str, Value] = {}
        """The environment of the command that is being visited."""
        self.exec = False
        """The command that is being visited replaces the shell."""
        self.depth: int = parent.depth + 1 if parent else 0
        self._work: list[int] = parent._work if parent else [0]
        self._detached = 0
        """In the background, a pipe, or a subshell."""
        self._branches = 0
        """Above 0: in a branch that may not be taken, or where a failure is caught (`… || true`)."""
        self._exits: bool = parent.conditional if parent else False
        """The script may have ended well before."""
        self._skips = False
        """The function or the loop's body may have ended before."""
        self.installs: list[bool] = parent.installs if parent else [False]
        """Whether the script installs vLLM; one list for the shell and its children."""

    @property
    def conditional(self) -> bool:
        """The command that is being visited may not run, or its failure may not be the script's."""
        return self._branches > 0 or self._exits or self._skips

    def child(self, positional: Sequence[Value] = (), zero: Value | None = None) -> Shell:
        """Another shell, started by this one."""
        state = self._copy()
        state.positional = list(positional)
        state.zero = zero or literal("sh")
        state.functions = {}
        state.variables = {name: v for name, v in state.variables.items() if name in state.exported}
        return Shell(state, self.visit, self)

    def run(self, script: str) -> None:
        """Follows a whole script."""
        if self.depth > _DEPTH:
            raise GiveUp
        root = self._parse(script)
        alone = _only_command(root)
        try:
            self._block(root.children, alone)
        except (Exit, _Return, _Break):
            return

    def _tree(self, text: bytes) -> Node:
        """The tree of a text; the parser's work is part of the script's."""

        def stop(offset: int, error: bool) -> bool:
            self._work[0] += offset // 2 + _STEP if error else _STEP
            return self._work[0] > WORK

        try:
            return _parser().parse(lambda offset, _: text[offset:], progress_callback=stop).root_node
        except ValueError:  # stopped
            raise GiveUp from None

    def _parse(self, script: str) -> Node:
        """The tree of a script, without what something else fills in before a shell sees it."""
        if len(script) > SIZE or "\0" in script:  # no process can be given a NUL
            raise GiveUp
        text = raw = script.encode(errors="replace")
        self._spend(len(raw) // 16)
        root = self._tree(raw)
        for match in reversed(list(itertools.islice(_BLANKS.finditer(raw), 1000))):
            node = root.descendant_for_byte_range(match.start(), match.start() + 1)
            kind = node.type if node is not None else ""
            if match[0].startswith(b"<"):
                # `--model <MODEL>` is a blank to fill in, not two redirections.
                replacement = b"'" + match[0] + b"'" if kind == "<" else match[0]
            elif kind in ("raw_string", "heredoc_body", "heredoc_content", "comment"):
                replacement = match[0]
            elif re.match(rb"\{\{-?\s*(if|else|end|with|range|define|/\*)\b", match[0]):
                replacement = b""
            else:
                name = f"_template_{match.start()}"
                written = match[0].decode(errors="replace")
                self.state.variables[name] = mystery(written, f"{written} is filled in by a template")
                replacement = b"${%s}" % name.encode()
            text = text[: match.start()] + replacement + text[match.end() :]
        return root if text == raw else self._tree(text)

    # ── statements ──

    def _block(self, children: Sequence[Node], alone: bool = False) -> Status:
        status: Status = "yes"
        for position, child in enumerate(children):
            if not child.is_named or child.type == "comment":
                continue
            following = children[position + 1].type if position + 1 < len(children) else ""
            if following == "&":
                self._apart(functools.partial(self._statement, child))
                status = "yes"
            else:
                status = self._statement(child, alone)
        return status

    def _apart(self, run: Callable[[], object]) -> None:
        """In a process of its own: what it sets is lost."""
        before, left = self._copy(), (self._exits, self._skips)
        self._detached += 1
        try:
            run()
        except (Exit, _Return, _Break):
            pass
        finally:
            self._detached -= 1
            self._exits, self._skips = left
            files = self.state.files
            self.state.__dict__.update(before.__dict__)
            self.state.files = files

    def _statement(self, node: Node, alone: bool = False) -> Status:
        self._spend(10)
        method = getattr(self, f"_{node.type}", None)
        if method is not None:
            result: Status = method(node, alone) if node.type in ("command", "redirected_statement") else method(node)
            return result
        # An unknown node, or one that the grammar could not parse: what stands in it may still run.
        return self._block(node.children) if node.children else "likely"

    def _list(self, node: Node) -> Status:
        named = [child for child in node.children if child.is_named]
        operator = next((c.type for c in node.children if c.type in ("&&", "||")), "&&")
        if len(named) != 2:
            return self._block(node.children)
        left = self._asked(named[:1]) if operator == "||" else self._statement(named[0])
        if operator == "&&":
            if left == "no":
                return "no"
            if left == "maybe":
                self._either([functools.partial(self._statement, named[1]), lambda: "no"], source(named[0]))
                return "maybe"
            return self._statement(named[1])
        if left == "yes":
            return "yes"
        if left == "no":
            return self._statement(named[1])
        self._either([lambda: "yes", functools.partial(self._statement, named[1])], f"! {source(named[0])}")
        return "likely"

    def _asked(self, condition: Sequence[Node]) -> Status:
        """A condition: that it fails is an answer, not the script's end."""
        self._branches += 1
        try:
            return self._block(condition)
        finally:
            self._branches -= 1

    def _pipeline(self, node: Node) -> Status:
        status: Status = "likely"
        for child in node.children:
            if child.is_named and child.type != "comment":
                self._detached += 1
                try:
                    status = self._statement(child)
                finally:
                    self._detached -= 1
        return "maybe" if status in ("yes", "no") else status

    def _subshell(self, node: Node) -> Status:
        self._apart(lambda: self._block(node.children))
        return "likely"

    def _compound_statement(self, node: Node) -> Status:
        if node.children and node.children[0].type == "((":
            inner = [child for child in node.children if child.is_named]
            number = self._words.arithmetic(inner[-1]) if inner else None
            return "maybe" if number is None else "yes" if number else "no"
        return self._block(node.children)

    _do_group = _compound_statement

    def _negated_command(self, node: Node) -> Status:
        return _negate(self._asked(node.children))

    def _if_statement(self, node: Node) -> Status:
        return self._branch(node.children)

    def _branch(self, children: Sequence[Node]) -> Status:
        """`if`/`elif` and what follows it up to `fi`."""
        condition: list[Node] = []
        body: list[Node] = []
        others: list[Node] = []
        part = condition
        for child in children:
            if child.type in ("elif_clause", "else_clause"):
                others.append(child)
            elif child.type in ("if", "elif", "fi"):
                continue
            elif child.type == "then":
                part = body
            else:
                part.append(child)
        status = self._asked(condition)
        if status == "yes":
            return self._block(body)
        if status == "no":
            return self._otherwise(others)
        why = " ".join(source(c) for c in condition if c.is_named)
        return self._either([lambda: self._block(body), lambda: self._otherwise(others)], why)

    def _otherwise(self, clauses: Sequence[Node]) -> Status:
        if not clauses:
            return "yes"
        if clauses[0].type == "else_clause":
            return self._block(clauses[0].children[1:])
        return self._branch([*clauses[0].children, *clauses[1:]])

    def _either(self, branches: Sequence[Callable[[], Status]], why: str) -> Status:
        """Follows every branch from the same state; the script goes on with what they have in common."""
        before, ends = self.state, []
        exits, skips = self._exits, self._skips
        for branch in branches:
            self.state = before.copy()
            self._spend(sum(len(v) for v in (before.positional, *before.variables.values())))
            self._branches += 1
            try:
                branch()
                ends.append(self.state)
            except (Exit, _Return, _Break) as end:
                before.files.update(self.state.files)
                exits = exits or (isinstance(end, Exit) and not end.failed)
                skips = skips or not isinstance(end, Exit)
            finally:
                self._branches -= 1
            exits, skips = exits or self._exits, skips or self._skips
        self._exits, self._skips = exits, skips
        self.state = before
        if not ends:
            raise Exit
        merged = functools.reduce(functools.partial(merge, why=_SPACE.sub(" ", why)[:80]), ends)
        before.__dict__.update(merged.__dict__)
        return "maybe"

    def _case_statement(self, node: Node) -> Status:
        subject = node.child_by_field_name("value")
        value = known(self._words.scalar(subject)) if subject is not None else None
        bodies: list[Callable[[], Status]] = []
        certain = value is not None
        for item in (child for child in node.children if child.type == "case_item"):
            patterns = [self._words.scalar(p) for p in item.children_by_field_name("value")]
            closing = next((i for i, c in enumerate(item.children) if c.type == ")"), 0)
            body = functools.partial(self._block, item.children[closing + 1 :])
            if value is None:
                bodies.append(body)
                continue
            texts = [known(p) for p in patterns]
            answers = [None if t is None else self._matches(value, t.strip("\"'")) for t in texts]
            if True in answers:
                if certain:
                    return body()
                bodies.append(body)
                break
            if None in answers:
                certain = False
                bodies.append(body)
        if not bodies:
            return "yes"
        return self._either([*bodies, lambda: "yes"], f"case {source(subject) if subject else ''}")

    def _for_statement(self, node: Node) -> Status:
        name_node, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if name_node is None or body is None:
            return "likely"
        name = source(name_node)
        skips, listed = self._skips, node.children_by_field_name("value")
        values = [f for v in listed for f in self._words.fields(v)] if listed else list(self.state.positional)
        if len(values) > _ITERATIONS or any(known(v) is None for v in values):
            values = values[:1]
            self._either(
                [functools.partial(self._round, name, v, body) for v in values] + [lambda: "yes"], source(body)
            )
            self._skips = skips
            return "likely"
        for value in values:
            try:
                self._round(name, value, body)
            except _Break:
                break
        self._skips = skips
        return "likely"

    _select_statement = _for_statement

    def _round(self, name: str, value: Value, body: Node) -> Status:
        self.state.variables[name] = value
        return self._statement(body)

    def _c_style_for_statement(self, node: Node) -> Status:
        body, skips = node.child_by_field_name("body"), self._skips
        if body is not None:
            self._either([lambda: self._statement(body), lambda: "yes"], source(node).partition("do")[0])
        self._skips = skips
        return "likely"

    def _while_statement(self, node: Node) -> Status:
        condition, body = node.children_by_field_name("condition"), node.child_by_field_name("body")
        skips, status = self._skips, self._asked(condition)
        if node.children and node.children[0].type == "until":
            status = _negate(status)
        if status == "no" or body is None:
            return "yes"
        branches: list[Callable[[], Status]] = [functools.partial(self._statement, body)]
        if status != "yes":
            branches.append(lambda: "yes")
        try:
            self._either(branches, " ".join(source(c) for c in condition))
        except Exit:
            if status != "yes":
                raise
        self._skips = skips
        return "likely"

    def _function_definition(self, node: Node) -> Status:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.state.functions[source(name)] = body
        return "yes"

    def _comment(self, node: Node) -> Status:
        return "yes"

    # ── assignments ──

    def _variable_assignment(self, node: Node) -> Status:
        name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name_node is None:
            return "yes"
        name = source(name_node)
        append = any(child.type == "+=" for child in node.children)
        variables = self.state.variables
        if name_node.type == "subscript":
            variables[name.partition("[")[0]] = mystery(f"${{{name}}}", f"{name} is assigned by element")
            return "yes"
        if self.state.get(name) is None:
            variables[name] = literal("")  # `ARGS="$ARGS --more"` starts from nothing
        before = variables.get(name)
        if value_node is not None and value_node.type == "array":
            elements: Array = [f for child in value_node.children if child.is_named for f in self._words.fields(child)]
            if append and isinstance(before, list):
                elements = before + elements
            elif append and isinstance(before, tuple) and text_of(before):
                elements = [before, *elements]
            variables[name] = elements[:4096]
            return "yes"
        value = self._words.scalar(value_node)
        if append and isinstance(before, list):
            variables[name] = [_glue(before[0], value), *before[1:]] if before else [value]
        elif append:
            variables[name] = _glue(before if isinstance(before, tuple) else literal(""), value)
        else:
            variables[name] = value
        return "yes"

    def _variable_assignments(self, node: Node) -> Status:
        return self._block(node.children)

    def _declaration_command(self, node: Node) -> Status:
        exports = bool(node.children) and node.children[0].type == "export"
        flags = [source(child) for child in node.children if child.type == "word"]
        exports = exports or any(flag.startswith("-") and "x" in flag for flag in flags)
        for child in node.children:
            name = ""
            if child.type == "variable_assignment":
                self._variable_assignment(child)
                target = child.child_by_field_name("name")
                name = source(target) if target is not None else ""
            elif child.type == "variable_name":
                name = source(child)
                if not exports and any(flag in ("-a", "-A") for flag in flags):
                    self.state.variables.setdefault(name, [])
            if exports and name:
                self.state.exported.add(name)
        return "yes"

    def _unset_command(self, node: Node) -> Status:
        for child in node.children[1:]:
            self.state.variables.pop(source(child), None)
        return "yes"

    # ── conditions ──

    def _test_command(self, node: Node) -> Status:
        inner = [child for child in node.children if child.is_named]
        if node.children and node.children[0].type == "((":
            return self._compound_statement(node)
        answer = self._test(inner[0], node.children[0].type == "[[") if len(inner) == 1 else None
        return "maybe" if answer is None else "yes" if answer else "no"

    def _test(self, node: Node, extended: bool) -> bool | None:
        """`[ … ]` and `[[ … ]]`; None where it can't be known."""
        children = node.children
        if node.type == "parenthesized_expression":
            inner = [child for child in children if child.is_named]
            return self._test(inner[0], extended) if inner else None
        if node.type == "negation_expression" or (node.type == "unary_expression" and source(children[0]) == "!"):
            answer = self._test(children[-1], extended)
            return None if answer is None else not answer
        if node.type == "unary_expression" and len(children) == 2:
            return self._question(source(children[0]), self._words.scalar(children[1]))
        if node.type == "binary_expression" and len(children) == 3:
            operator = source(children[1])
            if operator in ("&&", "||", "-a", "-o"):
                left, right = self._test(children[0], extended), self._test(children[2], extended)
                decisive = operator in ("||", "-o")
                if left is decisive or right is decisive:
                    return decisive
                return None if left is None or right is None else not decisive
            left_value, right_value = self._words.scalar(children[0]), self._words.scalar(children[2])
            quoted = children[2].type in ("string", "raw_string")
            return self._compare(left_value, operator, right_value, pattern=extended and not quoted)
        text = known(self._words.scalar(node))
        return None if text is None else bool(text)

    def _question(self, operator: str, value: Value) -> bool | None:
        text = known(value)
        if operator in ("-n", "-z"):
            if text is None:
                filled = any(p.unknown is None and p.text for p in value)
                return (operator == "-n") if filled else None
            return bool(text) if operator == "-n" else not text
        if operator in ("-f", "-e", "-r", "-s", "-x") and text is not None and self.file(text) is not None:
            return True
        return None

    def _compare(self, left: Value, operator: str, right: Value, *, pattern: bool) -> bool | None:
        one, two = known(left), known(right)
        if one is None or two is None:
            return None
        if operator in ("=", "==", "!="):
            same = self._matches(one, two) if pattern else one == two
            return same if operator != "!=" or same is None else not same
        if operator in ("-eq", "-ne", "-lt", "-le", "-gt", "-ge"):
            if not (re.fullmatch(r"-?\d{1,18}", one.strip()) and re.fullmatch(r"-?\d{1,18}", two.strip())):
                return None
            a, b = int(one), int(two)
            return {"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b, "-ge": a >= b}[operator]
        return None

    # ── commands ──

    @property
    def _words(self) -> Words:
        return Words(self.state, self._substitute, self._spend)

    def _spend(self, work: int) -> None:
        self._work[0] += work
        if self._work[0] > WORK:
            raise GiveUp

    def _copy(self) -> State:
        """A copy of the state, paid for."""
        self._spend(len(self.state.variables) // 8)
        return self.state.copy()

    def _matches(self, text: str, pattern: str) -> bool | None:
        """Whether a pattern fits the whole text; None where it would take long to find out."""
        if len(text) > 1024 or len(pattern) > 128:
            return text == pattern or None
        self._spend(len(text) * len(pattern) // 64)
        return fnmatch.fnmatchcase(text, pattern)

    def _redirected_statement(self, node: Node, alone: bool = False) -> Status:
        body = node.child_by_field_name("body")
        if body is None:
            return self._block(node.children)
        written = self._written(node, body)
        if written is not None:
            path, text, append = written
            path = posixpath.normpath(path)
            text = (self.state.files.get(path, "") if append else "") + text
            self._spend(len(text) // 16)
            self.state.files[path] = text[: 2 * SIZE]
        if body.type == "command":
            # `vllm serve m 2>&1 --flag`: the grammar takes the words after a redirection for further destinations.
            redirects = [r for r in node.children_by_field_name("redirect") if r.type == "file_redirect"]
            status = self._command(
                body, alone, [d for r in redirects for d in r.children_by_field_name("destination")[1:]]
            )
        else:
            status = self._statement(body, alone)
        for redirect in node.children_by_field_name("redirect"):
            if redirect.type == "heredoc_redirect":
                for child in redirect.children_by_field_name("right"):
                    status = self._statement(child)
                for child in redirect.children:
                    if child.type == "pipeline":
                        status = self._statement(child)
        return status

    def _written(self, node: Node, body: Node) -> tuple[str, str, bool] | None:
        """The file that `cat <<EOF > file`, `tee file <<EOF` or `echo … > file` writes: path, text, appended."""
        while body.type == "list" and body.children:
            body = body.children[-1]
        if body.type != "command":
            return None
        redirects = node.children_by_field_name("redirect")
        heredoc = next((r for r in redirects if r.type == "heredoc_redirect"), None)
        files = [r for r in redirects if r.type == "file_redirect"]
        if heredoc is not None:
            files += [r for r in heredoc.children if r.type == "file_redirect"]
        argv = [known(w) for w in self._argv(body)]
        target, append = None, False
        for redirect in files:
            operator = next((c.type for c in redirect.children if c.type in (">", ">>", ">|", "&>")), None)
            destination = redirect.child_by_field_name("destination")
            if operator and destination is not None and redirect.child_by_field_name("descriptor") is None:
                target, append = known(self._words.scalar(destination)), operator == ">>"
        if argv[:1] == ["tee"]:
            append = "-a" in argv
            target = next((a for a in argv[1:] if a and not a.startswith("-")), None)
        if target is None or not argv:
            return None
        if heredoc is not None and argv[0] in ("cat", "tee"):
            return target, self._heredoc(heredoc), append
        if argv[0] in ("echo", "printf") and None not in argv:
            return target, _echo([a for a in argv if a is not None]), append
        return None

    def _heredoc(self, node: Node) -> str:
        start = next((source(c) for c in node.children if c.type == "heredoc_start"), "")
        body = next((c for c in node.children if c.type == "heredoc_body"), None)
        if body is None:
            return ""
        text = source(body)
        if any(mark in start for mark in "'\"\\"):
            return text
        pieces, at = [], body.start_byte
        raw = body.text or b""
        for child in body.children:
            if child.is_named and child.type != "heredoc_content":
                pieces.append(raw[at - body.start_byte : child.start_byte - body.start_byte].decode(errors="replace"))
                pieces.append(text_of(self._words.scalar(child)))
                at = child.end_byte
        pieces.append(raw[at - body.start_byte :].decode(errors="replace"))
        return re.sub(r"\\([$`\\\n])", lambda m: "" if m[1] == "\n" else m[1], "".join(pieces))

    def _argv(self, node: Node) -> list[Value]:
        words = self._words
        argv: list[Value] = []
        for position, child in enumerate(node.children):
            if node.field_name_for_child(position) in ("name", "argument"):
                argv += words.fields(child)
                if len(argv) > WORDS:
                    raise GiveUp
        return argv

    def _command(self, node: Node, alone: bool = False, more: Sequence[Node] = ()) -> Status:
        argv = self._argv(node)
        argv += [field for word in more for field in self._words.fields(word)]
        assignments = [child for child in node.children if child.type == "variable_assignment"]
        prefix: dict[str, Value] = {}
        for child in assignments:
            name = child.child_by_field_name("name")
            if name is not None:
                prefix[source(name)] = self._words.scalar(child.child_by_field_name("value"))
        if not argv:
            self.state.variables.update(prefix)
            return "yes"
        return self.invoke(argv, prefix, alone)

    def invoke(self, argv: list[Value], prefix: dict[str, Value], alone: bool = False) -> Status:
        """One simple command: a function, a builtin, or a program."""
        self._spend(10)
        name = text_of(argv[0])
        if name in self.state.functions:
            return self._call(self.state.functions[name], argv)
        builtin = getattr(self, f"_builtin_{name}", None) if name.isalpha() else None
        if builtin is not None:
            result: Status = builtin(argv[1:])
            return result
        if name in (":", "true"):
            return "yes"
        if name in (".", "source"):
            return self._builtin_source(argv[1:])
        if name == "[":
            return self._builtin_test(argv[1:-1])
        if name in _IGNORED:
            return "likely"
        if name == "exec":
            rest = _after_options(argv[1:])
            if not rest:
                return "yes"
            self._program(rest, prefix, replaces=self._detached == 0)
            raise Exit
        self._program(argv, prefix, replaces=alone and self._detached == 0)
        if name in _QUESTIONS:
            return "maybe"
        if name == "command":
            return "maybe" if len(argv) > 1 and text_of(argv[1]) in ("-v", "-V") else "likely"
        return "likely"

    def _program(self, argv: list[Value], prefix: dict[str, Value], *, replaces: bool) -> None:
        variables = self.state.variables
        exported = {n: v for n in self.state.exported if isinstance(v := variables.get(n), tuple)}
        self.environment = {**exported, **prefix}
        self.exec = replaces
        self.visit(argv, self)

    def _call(self, body: Node, argv: list[Value]) -> Status:
        self.depth += 1
        if self.depth > _DEPTH:
            raise GiveUp
        skips = self._skips
        outer, self.state.positional = self.state.positional, argv[1:]
        try:
            return self._statement(body)
        except _Return:
            return "likely"
        finally:
            self.depth -= 1
            self.state.positional = outer
            self._skips = skips

    def file(self, path: str) -> str | None:
        """The text of a file that the manifest or the script itself wrote."""
        files = self.state.files
        path = posixpath.normpath(path)
        if path in files:
            return files[path]
        self._spend(len(files) // 4)
        # Relative to a directory we don't know: the one file that ends so.
        ends = [text for name, text in files.items() if name.endswith("/" + path)] if path[:1] != "/" else []
        return ends[0] if len(ends) == 1 else None

    def _substitute(self, node: Node) -> Value | None:
        """The output of `$(echo …)`, `$(cat file)` and of a Kubernetes `$(VAR)`; None where it has to be run."""
        inner = [child for child in node.children if child.is_named]
        if len(inner) != 1:
            return None
        name = source(node).strip()[2:-1]
        if name.isidentifier() and name not in self.state.functions:
            value = self.state.variables.get(name)
            if name in self.state.exported and isinstance(value, tuple) and known(value) is None:
                return value
        if inner[0].type == "file_redirect":
            destination = inner[0].child_by_field_name("destination")
            path = known(self._words.scalar(destination)) if destination is not None else None
            text = self.file(path) if path else None
            return literal(text.rstrip("\n")) if text is not None else None
        if inner[0].type == "redirected_statement":
            body = inner[0].child_by_field_name("body")
            redirects = inner[0].children_by_field_name("redirect")
            if body is not None and source(body) == "cat" and [r.type for r in redirects] == ["heredoc_redirect"]:
                return literal(self._heredoc(redirects[0]).rstrip("\n"))
            return None
        if inner[0].type != "command":
            return None
        argv = self._argv(inner[0])
        texts = [known(word) for word in argv]
        if texts[:1] == ["cat"] and len(texts) == 2 and texts[1]:
            text = self.file(texts[1])
            return literal(text.rstrip("\n")) if text is not None else None
        if texts[:1] == ["echo"] and not any(t is not None and t.startswith("-") for t in texts[1:2]):
            pieces: list[Piece] = []
            for position, word in enumerate(argv[1:]):
                pieces += [Piece(" "), *word] if position else word
            return tuple(pieces) or literal("")
        return None

    # ── builtins ──

    def _builtin_set(self, argv: list[Value]) -> Status:
        for position, word in enumerate(argv):
            text = text_of(word)
            if text == "--":
                self.state.positional = argv[position + 1 :]
                return "yes"
            if not text.startswith(("-", "+")):
                if position and text_of(argv[position - 1]).endswith("o"):
                    continue  # set -o pipefail
                self.state.positional = argv[position:]
                return "yes"
        return "yes"

    def _builtin_shift(self, argv: list[Value]) -> Status:
        count = known(argv[0]) if argv else "1"
        if count and re.fullmatch(r"[0-9]{1,6}", count):
            self.state.positional = self.state.positional[int(count) :]
        return "yes"

    def _builtin_export(self, argv: list[Value]) -> Status:
        for word in argv:
            name, equals, value = text_of(word).partition("=")
            if not name.isidentifier():
                continue
            self.state.exported.add(name)
            if equals:
                why = next((p.unknown for p in word if p.unknown is not None), None)
                self.state.variables[name] = mystery(value, why) if why else literal(value)
        return "yes"

    def _builtin_eval(self, argv: list[Value]) -> Status:
        self.depth += 1
        if self.depth > _DEPTH:
            raise GiveUp
        try:
            root = self._parse(" ".join(map(text_of, argv)))
            return self._block(root.children)
        finally:
            self.depth -= 1

    def _builtin_source(self, argv: list[Value]) -> Status:
        path = known(argv[0]) if argv else None
        text = self.file(path) if path else None
        if text is None:
            return "likely"
        self.depth += 1
        if self.depth > _DEPTH:
            raise GiveUp
        try:
            return self._block(self._parse(text).children)
        except _Return:
            return "likely"
        finally:
            self.depth -= 1

    def _builtin_read(self, argv: list[Value]) -> Status:
        for word in argv:
            name = text_of(word)
            if name.isidentifier():
                self.state.variables[name] = mystery(f"${name}", f"{name} is read when the script runs")
        return "maybe"

    _builtin_mapfile = _builtin_readarray = _builtin_read

    def _builtin_printf(self, argv: list[Value]) -> Status:
        if len(argv) > 1 and text_of(argv[0]) == "-v":
            return self._builtin_read(argv[1:2])
        return "likely"

    def _builtin_let(self, argv: list[Value]) -> Status:
        for word in argv:
            self._builtin_read([literal(re.split(r"\W", text_of(word))[0])])
        return "likely"

    def _builtin_test(self, argv: list[Value]) -> Status:
        answer: bool | None = None
        negated = bool(argv) and text_of(argv[0]) == "!"
        argv = argv[1:] if negated else argv
        if len(argv) == 1:
            text = known(argv[0])
            answer = None if text is None else bool(text)
        elif len(argv) == 2:
            answer = self._question(text_of(argv[0]), argv[1])
        elif len(argv) == 3:
            answer = self._compare(argv[0], text_of(argv[1]), argv[2], pattern=False)
        if answer is None:
            return "maybe"
        return "yes" if answer != negated else "no"

    def _builtin_exit(self, argv: list[Value]) -> Status:
        raise Exit(failed=bool(argv) and re.fullmatch(r"0*[1-9]\d{0,2}", known(argv[0]) or "") is not None)

    def _builtin_return(self, argv: list[Value]) -> Status:
        raise _Return

    def _builtin_break(self, argv: list[Value]) -> Status:
        raise _Break

    def _builtin_continue(self, argv: list[Value]) -> Status:
        return "yes"

    def _builtin_false(self, argv: list[Value]) -> Status:
        return "no"


def shell(environment: Environment, files: dict[str, str], visit: Callable[[list[Value], Shell], None]) -> Shell:
    """A shell in a container, before it has run anything."""
    values: dict[str, Value | Array] = dict(environment.values)
    return Shell(State(variables=values, exported=set(values), files=dict(files), rest=environment.rest), visit)


def _only_command(root: Node) -> bool:
    """The script is one simple command, which shells start without forking."""
    statements = [
        child for child in root.children if child.type != "comment" and source(child).strip() not in ("", ";")
    ]
    if len(statements) != 1:
        return False
    body = statements[0].child_by_field_name("body") if statements[0].type == "redirected_statement" else statements[0]
    return body is not None and body.type == "command"


def _negate(status: Status) -> Status:
    return "no" if status == "yes" else "yes" if status == "no" else "maybe"


def _after_options(argv: list[Value]) -> list[Value]:
    """`exec -a name command …` → command …"""
    while argv and text_of(argv[0]).startswith("-"):
        argv = argv[2:] if text_of(argv[0]) == "-a" else argv[1:]
    return argv


def _glue(left: Value, right: Value) -> Value:
    joined = tuple(p for p in (*left, *right) if p.text or p.unknown is not None)
    if len(joined) > 1 and all(p.unknown is None and p.path == joined[0].path for p in joined):
        joined = literal("".join(p.text for p in joined), joined[0].path)
    return joined[:4096] or literal("")


def _echo(argv: list[str]) -> str:
    name, *rest = argv
    while name == "echo" and rest and re.fullmatch(r"-[neE]+", rest[0]):
        rest = rest[1:]
    if name == "printf":
        return "\n".join(r.replace("\\n", "\n") for r in rest if r != "%s\\n") + "\n"
    return " ".join(rest) + "\n"
