"""What can't be right of the extracts of vLLM releases, and of the images that hold one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from podfit.vllm.release import Release, parse
from scripts.facts.table import Entry, Extract

ROW = {"flags", "negative", "type", "default", "choices", "nargs", "action", "const", "only", "deprecated"}
"""What an extract says of an option (scripts/facts/stand_ins.py)."""
DEFAULTS = {"int": (int,), "float": (int, float), "bool": (bool,)}
"""Type of an option → what its default may be, if it has one; that of a text may be anything."""
CAME_BACK = {
    ("0.5.0.post1", "image_processor"), ("0.5.0.post1", "image_processor_revision"),
    ("0.5.0.post1", "disable_image_processor"), ("0.5.5", "block_size"), ("0.6.4.post1", "chat_template_text_format"),
    ("0.9.2", "expand_tools_even_if_tool_choice_none"), ("0.10.1.1", "guided_decoding_backend"),
    ("0.10.2", "logprobs_mode"), ("0.30.0", "enable_mamba_fine_grained_prefix_cache"),
}  # fmt: skip
"""(release, dest) of options that were another in one release alone, as its wheel says."""
LEAST = (60, 70, 75, 80, 89, 90, 100, 103, 110, 120)
"""Compute capabilities that a quantization method may ask for."""


def read_problems(folder: Path, releases: Iterable[Release]) -> Iterator[str]:
    """`read.json: problem` if the newest release that was read is not one of these."""
    text = json.loads((folder / "read.json").read_text(encoding="utf-8")).get("release")
    if not isinstance(text, str) or parse(text) not in {*releases}:
        yield f"read.json: release {text!r}, expected one of facts/releases"


def extract_problems(extracts: Mapping[Release, Extract], today: str) -> Iterator[str]:
    """`release: problem` of the extracts, oldest first."""
    before = ""
    for release, extract in extracts.items():
        if extract["release"] != str(release):
            yield f"{release}: release {extract['release']!r}, expected the name of its file"
        date = str(extract.get("date"))
        if not re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])-\d\d", date) or not before <= date <= today:
            yield f"{release}: date {date!r}, expected YYYY-MM-DD, from {before or 'any day'} to {today}"
        before = max(before, date)
        if not extract.get("source"):
            yield f"{release}: no source"
        for dest, row in extract.get("options", {}).items():
            yield from (f"{release}: {dest}: {why}" for why in option_problems(row))
        yield from (f"{release}: {why}" for why in _twice(extract))
        for dest in (*extract["bounds"], *extract["configs"]) if "options" in extract else ():
            if dest not in extract["options"]:
                yield f"{release}: {dest}: bounds or fields of an option that it has not"
        for method, least in extract.get("minimum_capability", {}).items():
            if least not in LEAST:
                known = ", ".join(map(str, LEAST))
                yield f"{release}: minimum_capability of {method} {least!r}, expected one of {known}"
    yield from _came_back({release: one for release, one in extracts.items() if "options" in one})


def option_problems(row: Mapping[str, Any]) -> Iterator[str]:
    """What of an option contradicts the rest of it."""
    if strange := row.keys() - ROW:
        yield f"unknown field {min(strange)!r}"
    for flag in (*row.get("flags", ()), *row.get("negative", ())):
        if not re.fullmatch(r"-[\w]|-{1,2}\w[\w.-]+", flag):
            yield f"flag {flag!r}, expected -f or --flag"
    kind, default, choices = row.get("type"), row.get("default"), row.get("choices")
    if default is not None and kind in DEFAULTS and row.get("nargs") is None:
        wrong = isinstance(default, bool) and kind != "bool"
        if wrong or not isinstance(default, DEFAULTS[kind]):
            yield f"default {default!r}, expected {kind}"
    if default and choices and not isinstance(default, list) and default not in choices:
        yield f"default {default!r}, expected one of its choices"
    if row.get("action") in ("_StoreTrueAction", "_StoreFalseAction") and row.get("nargs") != 0:
        yield f"nargs {row.get('nargs')!r}, expected 0 as {row['action']} takes no value"


def _twice(extract: Extract) -> Iterator[str]:
    """Flags of two options, and names that are twice in a list or not in their order."""
    owners: dict[str, str] = {}
    for dest, row in extract.get("options", {}).items():
        for flag in (*row.get("flags", ()), *row.get("negative", ())):
            if owners.setdefault(flag, dest) != dest:
                yield f"{flag} is a flag of {owners[flag]} and of {dest}"
    lists = {f"names.{kind}": one for kind, one in extract["names"].items()}
    for key in ("architectures", "previously_supported", "model_types", "metrics", "variables"):
        lists[key] = extract.get(key, [])
    for key, names in lists.items():
        if names != sorted({*names}):
            yield f"{key}: expected each name once, in alphabetical order"


def _came_back(extracts: Mapping[Release, Extract]) -> Iterator[str]:
    """Options that are gone, new or another in one release alone: more often a slip than a change of vLLM's."""
    read = list(extracts.items())
    for (_, before), (release, extract), (after, later) in zip(read, read[1:], read[2:], strict=False):
        for dest in {**before["options"], **extract["options"], **later["options"]}:
            old, now, new = (one["options"].get(dest) for one in (before, extract, later))
            if old == new != now and (str(release), dest) not in CAME_BACK:
                what = "gone" if now is None else "new" if old is None else "another"
                yield f"{release}: {dest}: {what} in this release alone, until {after}"


def image_problems(rows: list[Entry], releases: Mapping[Release, Extract]) -> Iterator[str]:
    """`image: problem`: releases that podfit does not know, and newer tags with an older release."""
    newest, minors = max(releases), {(one.major, one.minor) for one in releases}
    tags: dict[str, list[tuple[list[int], Release, str]]] = {}
    for row in rows:
        release = parse(row["release"])
        if release is None or release > newest or (release.major, release.minor) not in minors:
            yield f"{row['image']}: release {row['release']!r}, expected a release up to {newest}"
            continue
        repository, _, tag = row["image"].partition(":")
        if numbers := re.match(r"v?(\d+(?:\.\d+)*)", tag):
            found = [int(part) for part in numbers[1].split(".")]
            tags.setdefault(repository, []).append((found, release, row["image"]))
    for tagged in tags.values():
        for (_, older, image), (_, newer, later) in pairwise(sorted(tagged)):
            if newer < older:
                yield f"{later}: release {newer}, expected at least the {older} of {image}"
