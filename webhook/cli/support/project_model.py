"""The fields of `podfit.yaml` (docs/schemas/project.json)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Project(BaseModel):
    """Defaults of a repository; an option on the command line replaces the field of its name."""

    model_config = ConfigDict(extra="forbid", strict=True)

    policies: list[str] = Field(default=[], description="Policy files, folders or names, as --policy")
    gpu: str | None = Field(default=None, description="NAME[:COUNT] for manifests that name no GPU, as --gpu")
    models: str | None = Field(default=None, description="A folder of models, as --models")
    baseline: str | None = Field(default=None, description="A baseline file, as --baseline")
    exclude: list[str] = Field(
        default=[], description="Patterns of files in folders that are not checked; * also matches /"
    )
    formats: list[str] = Field(default=[], description="FORMAT[=FILE], as --format")
    fail_on: Literal["denied", "likely", "advice"] | None = Field(
        default=None, alias="failOn", description="The lowest level that ends with exit code 1, as --fail-on"
    )
    docs_url: str | None = Field(default=None, alias="docsUrl", description="Where the rule pages are, as --docs-url")
