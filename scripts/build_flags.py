"""Builds webhook/data/flags.json, the life of each vLLM command line option, from a directory of parsers read out.

    python scripts/build_flags.py SOURCE_DIR

SOURCE_DIR holds one `<release>.json` a vLLM release, with the options of the argparse parser that the release itself
builds, and `INDEX.json` with what is true of that parser as a whole. An option's definition seldom changes, so the
table keeps each definition once and, for each dest, the spans of releases that have it:

    {"releases": ["0.4.0.post1", …], "underscores": 3,
     "definitions": [{"flags": ["--port"], "type": "int", …}], "options": {"port": [[first, last, definition], …]}}

`first` and `last` are indices into `releases` (both included), `definition` is one into `definitions`; `underscores` is
the first release whose parser takes `--some_flag` for `--some-flag`. In a definition, what is null is left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from webhook.vllm.args.taught import rows
from webhook.vllm.release import parse

TARGET = Path(__file__).parent.parent / "webhook" / "data" / "flags.json"


def build(source: Path) -> dict[str, Any]:
    """The whole table."""
    index = json.loads((source / "INDEX.json").read_text())
    releases = sorted(index, key=lambda name: parse(name) or sys.exit(f"{name} is no release"))
    if not all(index[release]["allow_abbrev"] for release in releases):
        sys.exit("a release without abbreviations: the grammar in webhook/vllm/args knows none")
    definitions: dict[str, int] = {}
    options: dict[str, list[list[int]]] = {}
    for number, release in enumerate(releases):
        options_of_it = json.loads((source / f"{release}.json").read_text())["options"]
        for dest, row in rows(options_of_it).items():
            text = json.dumps(row, sort_keys=True)
            which = definitions.setdefault(text, len(definitions))
            spans = options.setdefault(dest, [])
            span = next((span for span in spans if span[1:] == [number - 1, which]), None)
            if span is None:
                spans.append([number, number, which])
            else:
                span[1] = number
    return {
        "releases": releases,
        "underscores": min(n for n, release in enumerate(releases) if index[release]["underscores_accepted"]),
        "definitions": [json.loads(text) for text in definitions],
        "options": dict(sorted(options.items())),
    }


def main() -> None:
    """Writes the table, one definition and one option a line, so that a diff can be read."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    table = build(Path(sys.argv[1]))

    def compact(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    lines = [
        "{",
        f'"releases":{compact(table["releases"])},',
        f'"underscores":{table["underscores"]},',
        '"definitions":[',
        ",\n".join(compact(row) for row in table["definitions"]),
        "],",
        '"options":{',
        ",\n".join(f"{compact(dest)}:{compact(spans)}" for dest, spans in table["options"].items()),
        "}",
        "}",
    ]
    TARGET.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
