"""Scripts and files that a script makes: what is not known of a part of them is not known of what reads them.

Each script has M, which is certainly "first", or N, which may be "second". None: vLLM's one argument can't be known,
so that nothing is denied for it.
"""

from __future__ import annotations

import re

import pytest

from podfit.vllm.command import Command
from tests.vllm.command.pods import container

KNOWN = "M=first; "
UNKNOWN = "N=first; [ -f /x ] && N=second; "


def known(command: Command | None) -> str | None:
    """vLLM's one argument; None if it is not known, or if the container may serve without it."""
    if command is None or command.survived or [word.unknown for word in command.words] != [None]:
        return None
    return command.words[0].text


READERS = (
    'sh -c "vllm serve $@"',
    'exec bash -c "exec vllm serve $@"',
    "sh -c \"vllm serve '$@'\"",
    'eval "vllm serve $@"',
    'CMD="vllm serve $@"; eval $CMD',
    'CMD="vllm serve $@"; sh -c "$CMD"',
    "bash <<EOF\nvllm serve $@\nEOF",
    "bash <<EOF\nvllm serve '$@'\nEOF",
    "cat > run.sh <<EOF\nvllm serve $@\nEOF\nbash run.sh",
    "cat > run.sh <<EOF\nvllm serve '$@'\nEOF\nchmod +x run.sh\n./run.sh",
    "cat > env <<EOF\nvllm serve $@\nEOF\n. ./env",
)


@pytest.mark.parametrize("reader", READERS)
def test_a_script_made_of_known_words_is_known(reader: str) -> None:
    script = KNOWN + reader.replace("$@", "$M")

    assert known(container({"command": ["bash", "-c", script]})) == "first"


@pytest.mark.parametrize("reader", READERS)
def test_a_word_that_is_not_known_is_not_known_to_the_shell_that_reads_it(reader: str) -> None:
    script = UNKNOWN + reader.replace("$@", "$N")

    assert known(container({"command": ["bash", "-c", script]})) is None


@pytest.mark.parametrize(
    "text",
    [
        'read L < /config/length; bash -c "vllm serve m --max-model-len $L"',
        "read L < /config/length; bash -c \"vllm serve m --max-model-len '$L'\"",
        "L=$(nproc); cat > run.sh <<EOF\nvllm serve m --max-model-len $L\nEOF\nsh run.sh",
    ],
)
def test_a_value_that_only_the_outer_shell_has_is_no_missing_value(text: str) -> None:
    command = container({"command": ["bash", "-c", text]})

    assert command is not None
    assert [word.text for word in command.words[:2]] == ["m", "--max-model-len"]
    assert command.survived or command.words[2].unknown


@pytest.mark.parametrize(
    ("script", "model"),
    [
        ("echo first > f", "first"),
        ("echo second > f; echo first > f", "first"),
        ("cat > f <<EOF\nvllm serve $M\nEOF\n", "first"),
        ("tee f > /dev/null <<EOF\nvllm serve $M\nEOF\n", "first"),
        ("mkdir -p /app && echo first > f", "first"),
        ("echo first > f; grep -q first f; chmod 644 f; ls -l f", "first"),
        ("echo first > f; echo done > /var/log/state; cp f /backup", None),
        # on one way only
        ("[ -f f ] || echo first > f", None),
        ("[ -f f ] || cat > f <<EOF\nfirst\nEOF\n", None),
        ("if [ ! -f f ]; then echo first > f; fi", None),
        ("if [ -f x ]; then echo second > f; else echo first > f; fi", None),
        ("case $HOSTNAME in a) echo first > f;; *) echo second > f;; esac", None),
        ("echo first > f; (curl -sf http://x && echo second > f)", None),
        ("w() { [ -f /x ] && return; echo first > f; }; w", None),
        ("echo first > f; for i in 1 2; do [ -f /x ] && break; echo second > f; done", None),
        # another program or statement writes
        ("echo first > f; sed -i s/first/second/ f", None),
        ("echo first > f; mv g f", None),
        ("echo first > f; cp g f", None),
        ("echo first > f; cp other/f .", None),
        ("echo first > f; curl -o f http://x", None),
        ("echo first > f; echo second | tee f", None),
        ("echo first > f; python3 -c \"open('f', 'w').write('second')\"", None),
        ("echo first > f; python3 - <<EOF\nopen('f', 'w').write('second')\nEOF\n", None),
        ("echo first > f; envsubst < g > f", None),
        ("echo first > f; { echo second; } > f", None),
        ("echo first > f; (echo second) > f", None),
        ("echo first > f; for i in second; do echo $i; done > f", None),
        ("echo first > f; exec 3> f; echo second >&3", None),
        ("echo first > f; > f; echo second >> f", None),
        ("echo first > f; echo second 1> f", "second"),
        ("echo first > f; date 2> f", None),
        ("echo first > f; bash -c 'echo second > f'", "second"),
        ("echo first > f; cat > w.sh <<'E'\necho second > f\nE\nbash w.sh", "second"),
        # under a name that is not known
        ("echo first > f; echo second > $PWD/f", None),
        ("echo first > f; echo second > $(basename x/f)", None),
        ("echo first > f; mv g $(basename x/f)", None),
        ("echo first > f; echo second > $PWD/g", "first"),
    ],
)
def test_a_file_is_what_was_written_last(script: str, model: str | None) -> None:
    """`echo first > f` stands for a here-document with a script that serves `first`."""
    text = re.sub(r"echo (first|second) (1?>>?) (\w+)(?:; )?", r"cat \2 \3 <<'E'\nvllm serve \1\nE\n", script)
    command = container({"command": ["bash", "-c", f"{KNOWN}{text}\nbash f"]})
    assert (known(command) if command and not command.guessed else None) == model


def test_a_config_with_a_part_that_is_not_known_is_not_read() -> None:
    text = "L=$(nproc); cat > c.yaml <<EOF\nmodel: m\nmax-model-len: $L\nEOF\nvllm serve --config c.yaml"
    command = container({"command": ["bash", "-c", text]})

    assert command is not None
    assert command.config == {}


@pytest.mark.parametrize("endless", ["sleep infinity", "tail -f /dev/null"])
def test_nothing_is_started_behind_a_command_that_never_ends(endless: str) -> None:
    image = "registry.example/team/base:1"

    assert container({"image": image, "command": ["sh", "-c", f"{endless}\nvllm serve m"]}) is None
    assert container({"image": image, "command": ["sh", "-c", f"{endless} &\nvllm serve m"]}) is not None
