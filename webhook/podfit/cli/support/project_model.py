"""The fields of `podfit.yaml` (docs/schemas/project.json)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from podfit.base.near import nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


class Project(BaseModel):
    """Defaults of a repository; an option on the command line replaces the field of its name."""

    model_config = ConfigDict(extra="forbid", strict=True)

    policies: list[str] = Field(default=[], description="Policy files, folders or names, as --policy")
    gpu: str | None = Field(default=None, description="NAME[:COUNT] for manifests that name no GPU, as --gpu")
    nodes: str | None = Field(default=None, description="A file of nodes, or cluster, as --nodes")
    models: str | None = Field(default=None, description="A folder of models, as --models")
    hf_cache: bool | None = Field(
        default=None,
        alias="hfCache",
        description="Read models of the local Hugging Face cache, as --hf-cache",
    )
    baseline: str | None = Field(default=None, description="A baseline file, as --baseline")
    exclude: list[str] = Field(
        default=[], description="Patterns of files in folders that are not checked; * also matches /"
    )
    formats: list[str] = Field(default=[], description="FORMAT[=FILE], as --format")
    fail_on: Literal["denied", "likely", "advice"] | None = Field(
        default=None, alias="failOn", description="The lowest level that ends with exit code 1, as --fail-on"
    )
    docs_url: str | None = Field(default=None, alias="docsUrl", description="Where the rule pages are, as --docs-url")


def described(error: ErrorDetails) -> str:
    """The error of one field: the problem, the value, and what is expected."""
    kind, value = error["type"], error["input"]
    if kind == "extra_forbidden":
        names = [field_info.alias or name for name, field_info in Project.model_fields.items()]
        near = _nearest(str(error["loc"][-1]), names)
        return f"unknown field. {f'Did you mean {near}?' if near else 'Expected one of ' + ', '.join(names)}"
    if kind == "literal_error":
        allowed = ("denied", "likely", "advice")
        level = _nearest(str(value), allowed)
        expected = f"expected {', '.join(allowed[:-1])} or {allowed[-1]}"
        return f"not a valid level ({value!r}, {expected}){f'. Did you mean {level}?' if level else ''}"
    if kind not in _EXPECTED:
        return f"{error['msg']} ({value!r})"
    expected = _EXPECTED[kind]
    hint = f" such as [{value}]" if kind == "list_type" and isinstance(value, str) else ""
    return f"not {expected} ({value!r}, expected {expected}{hint})"


_EXPECTED: Mapping[str, str] = {"list_type": "a list", "string_type": "text"}
"""pydantic's error types that this model can have, and what they expect."""


def _nearest(word: str, words: Iterable[str]) -> str | None:
    """The likeliest of the words: equal but for case and dashes, else similar."""
    plain = {candidate.lower(): candidate for candidate in words}
    known = word.lower().replace("-", "").replace("_", "")
    return plain.get(known) or next((plain[text] for text in nearest(known, plain)), None)
