"""What a script may have changed of the Python code before vLLM starts."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.vllm.command import Command
from tests.vllm.command.pods import argv, container, script

SITE = "/usr/local/lib/python3.12/dist-packages"


def both_ways(words: str) -> list[Command]:
    """The command as a container's own words, and as a script's; either way it serves the model "m"."""
    commands = [container({"command": words.split()}), script(f"exec {words}")]
    found = [command for command in commands if command is not None]
    assert [argv(command) for command in found] == [["m"], ["m"]]
    return found


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        ("echo hello; sleep 1; nvidia-smi; mkdir -p /cache", set()),
        ("hf download Qwen/Qwen3-0.6B --local-dir /models", set()),
        ("cp /secrets/token /root/.cache/token", set()),
        (f"ls {SITE}/vllm; grep -r hermes {SITE}", set()),
        ("curl -sf http://vllm-config:8080/vllm/settings.py -o /tmp/settings", set()),
        ("ray start --head", set()),
        ("pip install -U vllm", {"vllm"}),
        ("pip install my-plugin", {"packages"}),
        ("python3 -m pip install my-plugin", {"packages"}),
        ("uv pip install git+https://example.com/team/plugin.git", {"packages"}),
        ("python /opt/prepare.py", {"packages"}),
        (". /opt/setup.sh", {"packages"}),
        ("source /opt/venv/bin/activate", {"code"}),
        ("bash /opt/setup.sh", {"packages"}),
        ("curl -s https://example.com/setup | bash", {"packages"}),
        ("bash -c 'pip install my-plugin'", {"packages"}),
        (f"sed -i s/a/b/ {SITE}/vllm/envs.py", {"code"}),
        ("cd /workspace; sed -i s/a/b/ vllm/envs.py", {"code"}),
        (f"cp -r /patch/. {SITE}/", {"code"}),
        ('cp -r /patch/. "$(python3 -c "import vllm; print(vllm.__path__[0])")"', {"code"}),
        (f"python3 -c \"open('{SITE}/vllm/envs.py', 'a').write('')\"", {"code"}),
        ("python3 - <<'EOF'\nimport vllm\nopen(vllm.__file__, 'a').write('')\nEOF", {"code"}),
        ("python3 -c 'import torch; print(torch.cuda.device_count())'", {"packages"}),
        ("patch -p1 < /patch/one.diff", {"code"}),
        ("git -C /workspace apply /patch/one.diff", {"code"}),
        (f"curl -so {SITE}/vllm/envs.py https://example.com/envs.py", {"code"}),
        (f"echo 'x = 1' > {SITE}/sitecustomize.py", {"code"}),
        ("apt-get update; apt-get install -y curl", set()),
        ("apt install -y ./plug.deb", {"code"}),
        ("apt-get install -y python3-plug", {"packages"}),
        ("dpkg -i /archives/plug.deb", {"code"}),
        ("tar xf /archives/model.tar -C /models", set()),
        ("tar czf /backup/models.tgz /models", set()),
        ("tar cf box.tar -C /models .", set()),
        ("tar cf box.tar models", set()),
        ("tar -v -xf site.tar", {"code"}),
        ("tar --directory=/ -z -v -f site.tar.gz -x", {"code"}),
        ("tar", set()),
        ("tar xf /archives/site.tar -C /", {"code"}),
        ("tar xf /archives/site.tar", {"code"}),
        ("curl -s https://example.com/site.tgz | tar xz -C /usr/local", {"code"}),
        ("unzip /archives/site.zip -d /root/.local", {"code"}),
        ("cp -r /patch/. /", {"code"}),
        (f"pip install my-plugin; cp /patch/envs.py {SITE}/vllm/envs.py", {"packages", "code"}),
    ],
)
def test_what_a_script_may_have_changed(before: str, changes: set[str]) -> None:
    command = script(f"{before}\nexec vllm serve m")

    assert command is not None
    assert command.changes == changes


@pytest.mark.parametrize(
    ("wrapper", "changes"),
    [
        ("uv run --with my-plugin", {"packages"}),
        ("uv run --with=my-plugin", {"packages"}),
        ("uv run", {"packages"}),  # in a project that may have plugins
        ("uv run --no-project", set()),
        ("uv run --no-project --with my-plugin", {"packages"}),
        ("uv run --with vllm==0.11.0", {"vllm"}),
        ("uv run --with-requirements /opt/requirements.txt", {"vllm"}),
        ("uvx --with my-plugin", {"vllm"}),
        ("env A=b uvx", {"vllm"}),
        ("conda run -n serving", {"vllm"}),
        ("poetry run", {"vllm"}),
        ("nice -n 5", set()),
    ],
)
def test_what_a_wrapper_brings(wrapper: str, changes: set[str]) -> None:
    assert [command.changes for command in both_ways(f"{wrapper} vllm serve m")] == [changes, changes]


def test_a_wrapper_runs_a_module() -> None:
    found = both_ways("uv run -m vllm.entrypoints.openai.api_server m")

    assert [command.entry for command in found] == ["module", "module"]
    assert [command.changes for command in found] == [{"packages"}, {"packages"}]


@pytest.mark.parametrize(
    ("wrapper", "release"),
    [
        ("uvx vllm@0.10.0", "0.10.0"),
        ("uv tool run vllm@v0.10.0", "0.10.0"),
        ("uvx vllm[audio]==0.11.0", "0.11.0"),
        ("uvx vllm@latest", "latest"),
        ("uvx --from vllm==0.10.2 vllm", "0.10.2"),
        ("uvx --from=vllm==0.10.2 vllm", "0.10.2"),
        ("uv run --with vllm==0.11.0 vllm", "0.11.0"),
        ("uvx vllm", ""),
        ("uv run --no-project vllm", ""),
    ],
)
def test_which_release_a_wrapper_brings(wrapper: str, release: str) -> None:
    assert [command.release for command in both_ways(f"{wrapper} serve m")] == [release, release]


@pytest.mark.parametrize(
    ("before", "release"),
    [
        ("pip install vllm==0.10.2 &&", "0.10.2"),
        ("python3 -m pip install -U 'vllm[audio]==0.11.0';", "0.11.0"),
        ("uv pip install --system vllm==0.11.0 my-plugin;", "0.11.0"),
        ("pip install vllm==0.10.2; pip install vllm==0.11.0;", "0.11.0"),
        ("pip install vllm==0.10.2; pip install my-plugin;", "0.10.2"),
        ("pip install vllm==0.10.2; pip install -r more.txt;", ""),
        ("pip install vllm==0.10.2 || true;", ""),
        ('if [ -n "$NEW" ]; then pip install vllm==0.10.2; fi;', ""),
        ("pip install 'vllm>=0.10.2';", ""),
        ("pip install --target /opt/vllm vllm==0.10.2;", ""),
        ("/venv/bin/pip install vllm==0.10.2;", ""),
        ("echo vllm==0.10.2;", ""),
    ],
)
def test_which_release_a_script_installs(before: str, release: str) -> None:
    command = script(f"{before} exec vllm serve m")

    assert command is not None
    assert command.release == release


def test_what_the_entrypoint_starts_is_the_image_s_own() -> None:
    command = container({"args": ["uvx", "vllm@0.10.0", "serve", "m"], "image": "vllm/vllm-openai:v0.22.0"})

    assert command is not None
    assert command.repeated
    assert (command.changes, command.release) == (frozenset(), "")


@pytest.mark.parametrize(
    ("image", "args", "repeated"),
    [
        ("vllm/vllm-openai:v0.11.0", ["serve", "m"], True),
        ("vllm/vllm-openai:v0.27.1", ["serve", "m", "--port", "80"], True),
        ("vllm/vllm-openai:v0.27.1", ["serve", "--model", "m"], True),
        ("vllm/vllm-openai:v0.11.0", ["serve", "--model", "m"], False),  # the module ignores the word
        ("vllm/vllm-openai:v0.11.0", ["serve", "$(WORDS)"], False),  # these may be a flag
        ("vllm/vllm-openai:v0.27.1", ["serve"], False),
        ("vllm/vllm-openai:v0.27.1", ["m", "serve"], False),
        ("example.com/vllm:1", ["serve", "m"], False),
    ],
)
def test_serve_is_repeated_only_in_an_image_that_starts_it(image: str, args: list[str], *, repeated: bool) -> None:
    command = container({"args": args, "image": image})

    assert command is not None
    assert command.repeated == repeated


FIRST = "/venv/bin:/usr/bin"
OWN = "/usr/local/nvidia/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/venv/bin"


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        ({"command": ["/venv/bin/vllm", "serve", "m"]}, {"vllm"}),
        ({"command": ["/venv/bin/python3", "-m", "vllm.entrypoints.openai.api_server"]}, {"vllm"}),
        ({"command": ["/venv/bin/python3", "/venv/bin/vllm", "serve", "m"]}, {"vllm"}),
        ({"command": ["nice", "/venv/bin/vllm", "serve", "m"]}, {"vllm"}),
        ({"command": ["venv/bin/vllm", "serve", "m"]}, {"vllm"}),
        ({"command": ["/usr/local/bin/vllm", "serve", "m"]}, set()),
        ({"command": ["/usr/bin/python3", "-m", "vllm.entrypoints.openai.api_server"]}, set()),
        ({"command": ["/opt/venv/bin/python", "/opt/venv/bin/vllm", "serve", "m"]}, set()),
        ({"command": ["/usr/bin/env", "vllm", "serve", "m"]}, set()),
        ({"command": ["/app/bin/vllm", "serve", "m"], "image": "team/vllm:v0.22.0"}, set()),  # its own, for all we know
        (
            {
                "command": ["/app/bin/vllm", "serve", "m"],
                "image": "team/vllm:v0.22.0",
                "volumeMounts": [{"name": "app", "mountPath": "/app"}],
            },
            {"vllm"},
        ),
        ({"command": ["env", "PATH=" + FIRST, "vllm", "serve", "m"]}, {"code"}),
        ({"env": [{"name": "PATH", "value": FIRST}]}, {"code"}),
        ({"env": [{"name": "PATH", "value": OWN.removesuffix(":/venv/bin")}]}, set()),
        ({"command": ["sh", "-c", "PATH=/venv/bin:$PATH vllm serve m"]}, {"code"}),
        ({"command": ["sh", "-c", "export PATH=/venv/bin:${PATH}; vllm serve m"]}, {"code"}),
        ({"command": ["sh", "-c", "export PATH=$PATH:/venv/bin; vllm serve m"]}, set()),
        ({"command": ["sh", "-c", "export PATH=$VENV/bin:$PATH; vllm serve m"]}, {"code"}),
        ({"env": [{"name": "PYTHONPATH", "value": "/src"}]}, {"code"}),
        ({"env": [{"name": "PYTHONPATH", "value": ""}]}, set()),
        ({"env": [{"name": "PYTHONHOME", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]}, {"code"}),
        ({"env": [{"name": "PYTHONUSERBASE", "value": "/venv"}]}, {"code"}),
        ({"command": ["sh", "-c", "cd /src; python3 -m vllm.entrypoints.openai.api_server"]}, {"code"}),
        ({"command": ["sh", "-c", "cd; python3 -m vllm.entrypoints.openai.api_server"]}, {"code"}),
        ({"command": ["sh", "-c", "cd /vllm-workspace; python3 -m vllm.entrypoints.openai.api_server"]}, set()),
        ({"command": ["sh", "-c", "cd /src; vllm serve m"]}, set()),
    ],
)
def test_whose_python_runs(spec: dict[str, Any], changes: set[str]) -> None:
    command = container({"image": "vllm/vllm-openai:v0.22.0", **spec})

    assert command is not None
    assert command.changes == changes


@pytest.mark.parametrize(
    ("folder", "command", "changes"),
    [
        ("/src/vllm", ["python3", "-m", "vllm.entrypoints.openai.api_server"], {"code"}),
        ("/src/vllm", ["python3", "-m", "vllm.entrypoints.cli.main", "serve", "m"], {"code"}),
        ("/src/vllm", ["vllm", "serve", "m"], set()),
        ("/elsewhere", ["python3", "-m", "vllm.entrypoints.openai.api_server"], set()),
    ],
)
def test_modules_are_looked_for_where_python_starts(folder: str, command: list[str], changes: set[str]) -> None:
    found = container({"command": command, "workingDir": folder, "volumeMounts": [{"name": "s", "mountPath": "/src"}]})

    assert found is not None
    assert found.changes == changes
