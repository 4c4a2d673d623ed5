from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podfit.kube.path import mappings
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, parameter
from podfit.rules.storage import brought_files

FILE_FLAGS = ("chat_template", "ssl_keyfile", "ssl_certfile", "ssl_ca_certs", "tool_parser_plugin",
         "reasoning_parser_plugin", "tokenizer", "hf_config_path")  # fmt: skip
"""Arguments that name a file or a folder."""
PLUGINS = ("tool_parser_plugin", "reasoning_parser_plugin")
"""vLLM logs that it can't load one of these, and ends only if a parser of it is selected (`import_tool_parser`)."""
STARTS_WITHOUT_PLUGIN = "vLLM starts without the plugin if no parser of it is selected"
TEMPLATE_SIGNS = frozenset("{}\n$<>*")
"""Signs of a text that is an inline template, a placeholder or a pattern, and not the path of one file."""
SHIPPED_DIRECTORIES = ("/vllm-workspace/", "/app/", "/workspace/", "/usr/", "/opt/", "/etc/ssl/", "/etc/pki/", "/lib/",
                       "/bin/", "/proc/", "/sys/", "/dev/", "/var/run/secrets/", "/run/secrets/", "/vault/",
                       "/var/lib/")  # fmt: skip
"""Where vLLM's images have files of their own (docker/Dockerfile: WORKDIR /vllm-workspace, with examples/*.jinja;
Dockerfile.rocm: /app; Dockerfile.xpu, .cpu and .tpu: /workspace), and where Kubernetes and Vault's agent put theirs."""


@dataclass(frozen=True)
class FileMissing(Rule):
    """An argument names a file, and no volume is mounted at its place.

    A chat template, a key, a LoRA adapter or a `--config` file that does not exist ends vLLM while it starts:

        ValueError: The supplied chat template string (/templates/chat.jinja) appears path-like, but doesn't exist!
        FileNotFoundError: [Errno 2] No such file or directory: '/certs/tls.key'
        ValueError: Loading lora adapter failed: No adapter found for /adapters/sql

    A plugin that does not exist ends it if one of its parsers is selected.

    Templates that are written inline, relative paths, and places where vLLM's image has files are not reported. It is a
    warning, since a webhook may add the volume. A policy can exclude that with `closed: true`.
    """

    plane = "storage"
    event = "vLLM exits: the file does not exist"
    mode = "deny"

    closed: bool = parameter(False, brought_files.CLOSED)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely; certain if the policy says that nothing else brings files (`closed`), except for a plugin."""
        for dest, path in _files(engine):
            if not path.startswith("/") or path.startswith(SHIPPED_DIRECTORIES) or not engine.args.is_sure(dest):
                continue
            if path in engine.command.config:
                continue  # podfit has read the --config file
            if not TEMPLATE_SIGNS.isdisjoint(path):
                continue
            if not brought_files.may_be_there(engine, path):
                yield Finding(
                    path=engine.argument(dest),
                    message=f"--{dest.replace('_', '-')} {path}: no volume is mounted at its place, and vLLM's image "
                    "has no such file",
                    certainty="certain" if self.closed and dest not in PLUGINS else "likely",
                    uncertain=STARTS_WITHOUT_PLUGIN if dest in PLUGINS else brought_files.UNCERTAIN,
                    suggestions=("a ConfigMap, a Secret or another volume with the file, mounted there",),
                )


def _files(engine: Engine) -> Iterator[tuple[str, str]]:
    """(dest of the argument, its value) for each argument that names a file or a folder."""
    given, written = engine.args.given, engine.args.written
    for dest in FILE_FLAGS:
        if isinstance(path := given.get(dest), str):
            yield dest, path
    for module in mappings(given.get("lora_modules")):
        if isinstance(path := module.get("path"), str):
            yield "lora_modules", path
    if isinstance(path := written.get("config"), str):
        yield "config", path
