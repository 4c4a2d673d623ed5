"""What `podfit fix --write` does to other people's files: comments, and lines that no repair speaks of.

python -m benchmarks.rewrites DIR
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator, Sequence

from podfit.cli.support import edge
from podfit.evaluation.policy import builtin
from podfit.evaluation.repair import repair
from podfit.kube.manifest import Document
from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath
from podfit.report.rewrite import rewrite
from podfit.vllm.facts import Facts

_COMMENT = re.compile(r"(?:^|\s)(#.*)$", re.MULTILINE)


def main(argv: Sequence[str]) -> int:
    """Prints how many files were changed, and what was changed apart from the repairs; 1 if something was."""
    if not argv:
        print(__doc__)
        return 2
    files = changed = lines = comments = elsewhere = 0
    policy = builtin()
    sources, _ = edge.read([argv[0]], Facts())
    for source in sources:
        documents = source.manifests.documents
        if not documents:
            continue
        files += 1
        before = documents[0].text
        made_here = [
            (document, made.edits)
            for document in documents
            if (made := repair(document.object, policy, source.facts)).edits
        ]
        edits: dict[int, tuple[Edit, ...]] = {}
        for document, own in made_here:
            rooted = (Edit(document.root.join(*one.path.parts), one.value, one.op) for one in own)
            edits[document.index] = (*edits.get(document.index, ()), *rooted)
        try:
            after = rewrite(before, list(edits.items()))
        except ValueError as error:
            print(f"{source.name}: left alone: {error}")
            continue
        if after == before:
            continue
        changed += 1
        lost = [one for one in _COMMENT.findall(before) if one not in after]
        touched = set(_lines(made_here))
        stray = [number for number in _removed(before, after) if number not in touched]
        lines += sum(1 for _ in _removed(before, after))
        comments += len(lost)
        elsewhere += len(stray)
        for number in stray:
            print(f"{source.name}:{number}: changed, and no repair speaks of it")
        for one in lost:
            print(f"{source.name}: the comment {one!r} is gone")
    print(
        f"{files} files, {changed} changed, {lines} of their lines; {elsewhere} lines that no repair speaks of, "
        f"{comments} comments gone"
    )
    return int(bool(elsewhere or comments))


def _removed(before: str, after: str) -> Iterator[int]:
    """The lines of the old text that are not in the new one; what is only added is in none."""
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    for tag, start, end, _, _ in matcher.get_opcodes():
        if tag in ("replace", "delete"):
            yield from range(start + 1, end + 1)


def _lines(made_here: Sequence[tuple[Document, Sequence[Edit]]]) -> Iterator[int]:
    """The lines of the values that are edited (of a list's item: of the list, whose items move), and of the nearest
    field above one that is not there yet."""
    for document, edits in made_here:
        for edit in edits:
            parts = edit.path.parts
            path = FieldPath(parts[:-1]) if parts and isinstance(parts[-1], int) else edit.path
            for one in (path, *_leaves(path, path.get(document.object))):
                mark = document.mark_of(one)
                yield from range(mark.line, mark.end_line + 1)


def _leaves(path: FieldPath, value: object) -> Iterator[FieldPath]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield path / name
        yield from _leaves(path / name, inner)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
