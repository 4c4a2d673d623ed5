"""Build the documentation site into .cache/site/html and check it: `make site`.

Zensical reads one folder, so docs/ and pages of the repository's root are copied into .cache/site/docs first. Links to
other files of the repository then lead to GitHub. Zensical's strict build checks links between pages. The check here
reads the built HTML: every link and anchor exists, and no page loads a file from another host.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
WORK = ROOT / ".cache" / "site"
REPOSITORY = "https://github.com/podfit/podfit/blob/main"
ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages of the site that are outside docs/, since GitHub expects them in the root."""

_LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)#\s]+)((?:#[^)\s]*)?\))")
_EVERY_OTHER = re.compile(r'"([\w-]+)/\*"')
_FENCE = re.compile(r"^\s*```")
_CODE = re.compile(r"`[^`]+`")


def main() -> int:
    """Prints each problem; 1 if there is one."""
    shutil.rmtree(WORK, ignore_errors=True)
    for name, text in pages(ROOT).items():
        target = WORK / "docs" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    for path in (ROOT / "docs").rglob("*"):
        if path.is_file() and path.suffix != ".md":
            target = WORK / "docs" / path.relative_to(ROOT / "docs")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    (WORK / "zensical.toml").write_text(configuration(ROOT))
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=WORK, env=os.environ | {"NO_COLOR": "1"}, check=False)
    found = list(problems(WORK / "html"))
    print("".join(f"error: {problem}\n" for problem in found), end="", file=sys.stderr)
    built = sum(1 for _ in (WORK / "html").rglob("index.html"))
    print(f"{built} pages in {WORK.relative_to(ROOT)}/html, {len(found)} broken links")
    return int(bool(done.returncode or found))


def pages(root: Path) -> Mapping[str, str]:
    """Path in the site's folder → Markdown, for every page of docs/ and of the root."""
    sources = {path: path.relative_to(root / "docs").as_posix() for path in sorted((root / "docs").rglob("*.md"))}
    sources |= {root / name: name for name in ROOT_PAGES}
    return {name: _relinked(path, sources) for path, name in sources.items()}


def _relinked(page: Path, sources: Mapping[Path, str]) -> str:
    """The page with its links as they are in the site's folder."""
    folder = PurePosixPath(sources[page]).parent

    def link(match: re.Match[str]) -> str:
        target = (page.parent / match[2]).resolve()
        if target in sources:
            to = os.path.relpath(sources[target], folder)
        elif target.is_relative_to(ROOT / "docs") and target.is_file():
            to = os.path.relpath(target.relative_to(ROOT / "docs"), folder)
        else:
            to = f"{REPOSITORY}/{target.relative_to(ROOT)}"
        return f"{match[1]}{to}{match[3]}"

    out, code = [], False
    for line in page.read_text().splitlines(keepends=True):
        code ^= bool(_FENCE.match(line))
        line = line if code else _LINK.sub(link, line)
        out.append(_CODE.sub(_unescaped, line) if line.startswith("|") and not code else line)
    return "".join(out)


def _unescaped(code: re.Match[str]) -> str:
    """Code in a table: GitHub needs its pipes escaped, Zensical shows the escape."""
    return code[0].replace("\\|", "|")


def configuration(root: Path) -> str:
    """zensical.toml with each `"FOLDER/*"` replaced by the folder's pages."""

    def every(match: re.Match[str]) -> str:
        found = sorted((root / "docs" / match[1]).glob("*.md"))
        return ", ".join(json.dumps(f"{match[1]}/{path.name}") for path in found if path.name != "README.md")

    return _EVERY_OTHER.sub(every, (root / "zensical.toml").read_text())


@dataclass
class _Page(HTMLParser):
    """What one built page links to, loads, and offers as anchors."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(given.get("href", ""))
        elif "src" in given:
            self.loads.append(given["src"])


def problems(html: Path) -> Iterator[str]:
    """Every link of the built pages that leads nowhere, and every file that a page loads from another host."""
    read = {path: _parsed(path) for path in sorted(html.rglob("*.html")) if path.name != "404.html"}
    for path, page in read.items():
        name = path.relative_to(html).as_posix()
        for url in page.loads:
            if urlsplit(url).netloc:
                yield f"{name}: loads {url} from another host"
        for url in (*page.links, *page.loads):
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{name}: {url} does not exist"
            elif parts.fragment and target in read and unquote(parts.fragment) not in read[target].anchors:
                yield f"{name}: {url} has no such anchor"


def _parsed(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text())
    return page


if __name__ == "__main__":
    sys.exit(main())
