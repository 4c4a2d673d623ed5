"""`flags` in webhook/podfit/data/releases.json: in which releases vLLM's parser has an option, and how.

An option's definition seldom changes, so the table keeps each definition once and, for each dest, the spans of releases
that have it:

    {"releases": ["0.4.0.post1", …], "underscores": 3,
     "definitions": [{"flags": ["--port"], "type": "int", …}], "options": {"port": [[first, last, definition], …]}}

`first` and `last` are indices into `releases` (both included), `definition` is one into `definitions`; `underscores` is
the first release whose parser takes `--some_flag` for `--some-flag`. In a definition, what is null is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from podfit.vllm.release import Release
from scripts.facts.table import Extract, add_span, compact


def build(extracts: Mapping[Release, Extract]) -> dict[str, Any]:
    """The table, of the releases whose parser was read."""
    read = {release: extract for release, extract in extracts.items() if "options" in extract}
    definitions: dict[str, int] = {}
    options: dict[str, list[list[Any]]] = {}
    for number, extract in enumerate(read.values()):
        for dest, row in extract["options"].items():
            text = json.dumps(row, sort_keys=True)
            add_span(options.setdefault(dest, []), number, definitions.setdefault(text, len(definitions)))
    return {
        "releases": [str(release) for release in read],
        "underscores": min(number for number, extract in enumerate(read.values()) if extract["underscores"]),
        "definitions": [json.loads(text) for text in definitions],
        "options": dict(sorted(options.items())),
    }


def text(table: Mapping[str, Any]) -> str:
    """The file: a line for each definition and option."""
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
    return "\n".join(lines) + "\n"
