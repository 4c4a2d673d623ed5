"""Shell scripts: what we read is what a shell does, and what only a running shell knows is unknown."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.vllm.command.pods import agrees, argv, container, script

# In bash, and where it does not say more in dash, too, these are read exactly or not at all.
UNCERTAIN = r"""
vllm serve m $(cat <<'E' | grep -v '^#'
a
# b
E
)
---
vllm serve m $(cat <<'E' | tr a b
a
E
)
---
L="a b"; [[ " $L " == *" c "* ]] && X=1 || X=2; vllm serve m $X
---
L="a b"; [[ " $L " != *" b "* ]] && X=1 || X=2; vllm serve m $X
---
L=a,b; case ",$L," in *",c,"*) X=1;; *",b,"* | d) X=2;; esac; vllm serve m $X
---
P='*'; [[ "a b" == *$P* ]] && X=1 || X=2; vllm serve m $X
---
P='*'; [[ "a b" == a*${P}"b" ]] && X=1 || X=2; vllm serve m $X
---
[[ a == !(b) ]] && X=1 || X=2; vllm serve m $X
---
[[ ! a == *"c"* ]] && X=1 || X=2; vllm serve m $X
---
A=abc; B=c; vllm serve m ${A%$B} ${A#$B} ${A/$B/x} ${A%"$B"}
---
A=a/b; vllm serve m ${A////-} ${A//\//-}
---
f() { A=1; }; unset -f f; f; vllm serve m $A
---
A=1; N=A; unset $N; vllm serve m $A
---
A=1; N=A; unset "$N"; vllm serve m x$A
---
if [ -d /tmp ]; then f() { X=1; }; else f() { X=2; }; fi; f; vllm serve m $X
---
[ -f /nonexistent ] && f() { X=1; }; f; vllm serve m x$X
---
A=1; trap "A=2" ERR; false; vllm serve m $A
---
IFS=-; set -- a b; vllm serve m "$*"
---
vllm serve m $((40*1024)) "$(( 8 * 1024 ))" --a=$((2*3))
---
A=(a b); IFS=,; vllm serve m "${A[*]}"
---
read X <<< 'a\b'; vllm serve m "$X"
---
IFS=, read -ra A <<< "a b,c,"; vllm serve m "${A[@]}"
---
A="abc"; P="*c"; vllm serve m ${A%"*c"} ${A%$P} ${A%"$P"}
---
A='a[b]'; vllm serve m "${A%\[b\]}" ${A#[^b]}
---
vllm serve m "`echo \"a b\"`" "$(echo 'a\nb')"
---
vllm serve m * ./*.txt
---
A='*'; vllm serve m $A
---
A=; [ -n $A ] && X=1 || X=2; vllm serve m $X
---
A="a b"; [ -n $A ] && X=1 || X=2; vllm serve m $X
---
A="a b"; [ $A = "a b" ] && X=1 || X=2; vllm serve m $X
---
[ a = b -o b = b ] && X=1 || X=2; vllm serve m $X
---
[[ c = c || a = b && b = c ]] && X=1 || X=2; vllm serve m $X
---
P='a*'; [[ abc == "$P"* ]] && X=1 || X=2; vllm serve m $X
---
[[ a == [^b] ]] && X=1 || X=2; vllm serve m $X
---
[[ abc == a\*c ]] && X=1 || X=2; vllm serve m $X
---
[[ 010 -eq 8 ]] && X=1 || X=2; vllm serve m $X
---
case abc in a"*") X=1;; *) X=2;; esac; vllm serve m $X
---
P='a*'; case abc in "$P") X=1;; *) X=2;; esac; vllm serve m $X
---
case a in [[:alpha:]]) X=1;; *) X=2;; esac; vllm serve m $X
---
case abc in a*) X=1;& z) X=3;; *) X=2;; esac; vllm serve m $X
---
vllm serve m ${Y:-a\ b}
---
set -- 1 2 3 4 5 6 7 8 9 t; vllm serve m $10 ${10}
---
A=(x y z); unset 'A[1]'; vllm serve m "${A[@]}"
---
A=([2]=x [0]=y); vllm serve m "${A[@]}"
---
A=(a b); vllm serve m "${A[@]/a/z}" "${A[@]#a}"
---
vllm serve m "$0" ${0##*/}
---
A=0; B=1; vllm serve m $((A && (B=5))) $((1 || (B=6))) $B
---
vllm serve m $((-2**2)) $((2**3**2)) $((-5 >> 1)) $((-7/2))
---
A=ß; vllm serve m ${A^^}
---
set -- {a,b}; vllm serve m $#
---
export A={a,b}; vllm serve m $A
"""

# Each is run by a real bash too, with M=model, TP=2 and an empty EMPTY.
SCRIPTS = r"""
vllm serve m --a "x y" 'q$z' --port 8000
---
HOME=/h; A=~/x; vllm serve m ~ ~/y --z=~/q "~/w" $A a~b
---
vllm serve m '{a,b}' "{c,d}" {e} ${TP}{
---
M=abc; vllm serve "$M" ${M} $M/x "${M}-y" '$M' \$M
---
A="--x 1 --y 2"
vllm serve m $A "$A"
---
vllm serve ${MODEL:-a/b} ${MODEL-a} "${EMPTY:-d e}" ${EMPTY-none} ${OTHER:+--no} ${M:+--yes "a b" c}
---
EXTRA+=(--k "v w"); vllm serve m "${EXTRA[@]}"
---
cat > s.sh <<'EOF'
vllm serve "$1" --here
EOF
bash s.sh model
---
cat <<EOF > t.sh
vllm serve m --p $M "\$TP"
EOF
chmod +x t.sh; ./t.sh
---
mkdir -p d && cat <<'EOF' > d/u.sh
vllm serve m --nested
EOF
bash d/u.sh
---
CMD="vllm serve m --a b"; exec $CMD
---
vllm serve m \
  --port 9000 `# the port` \
  --more
---
exec vllm serve m \
  --a 1 \
  # a comment ends the command
---
# vllm serve commented
vllm serve m & wait
---
vllm serve m --json '{"a": "b",
  "c": 1}' 2>&1 | tee log
---
false || vllm serve m
---
vllm serve m --x "a\"b" "a\\b" a\ b
---
export A=1 B="2 3"; env C=4 nohup vllm serve m $A "$B"
---
bash -c "vllm serve m --x '$M'"
---
sh -c 'vllm serve "$0" "$@"' m --a b
---
sh -c 'vllm serve "${00}" "${01}" "${02}"' m --a b
---
{ vllm serve m --group; }
---
(cd /tmp && vllm serve m --sub)
---
vllm serve m --x="$M" --y='a b'"c d"$M
---
A=; vllm serve m $A "$A" --end
---
J='{"a":"'$M'"}'; vllm serve m --j "$J"
---
N=$M; unset N; vllm serve m ${N:-gone}
---
set -eu; set -o pipefail; vllm serve m "$TP"
---
vllm serve m ${TP:+--tp "$TP" --flag}
---
vllm serve "m" "" ''
---
vllm serve m 2>&1 --after "a b" < /dev/null --more
---
vllm serve m --tmpl "{% if a %}<b>{% endif %}" '<think> x </think>'
---
A="x"; A+=" y"; vllm serve m $A "$A"
---
vllm serve m "${M:-"nested $TP"}" "${OTHER:-"nested $TP"}" "${OTHER:-'q'}" ${OTHER:-'q r'} "a${OTHER:- b }c"
---
bash <<'END'
vllm serve m --here "a b"
END
---
bash -s -- one "t w o" <<'END'
vllm serve m "$1" "$2"
END
"""
# The same: a part of each is not followed, so that words are unknown or the server is not certain to start.
OPAQUE = r"""
A=abc; A=$(echo x=1); vllm serve m --x $A
---
IFS=; A="b c"; vllm serve m $A; unset IFS
---
ARGS=(serve m --x "a b"); ARGS+=(--k v); vllm "${ARGS[@]}" ${#ARGS[@]}
---
set -- serve m; set -- "$@" --a "b c"; [ -n "$EMPTY" ] && set -- "$@" --no; vllm "$@"
---
vllm serve m --n $((2*3+1)) --m $(( (TP) * 4 )) --o $((TP > 1 ? 8 : 4)) --p $((-7/2)) --q $((TP**3 % 5))
---
((X = TP * 4, Y = X / 2)); N=1; ((N += 3)); ((N++)); ((--N)) && vllm serve m -x $X -y $Y -n $N
---
A=8; ((A <<= 1)); ((B = A++)); vllm serve m --a $A --b $B --c $((C = A - 1)) --d $C
---
let X=TP*4 'Y = X + 1'; let Z=0 || vllm serve m -x $X -y $Y -z $Z
---
if [ "$TP" = "2" ]; then X=--two; elif [ "$TP" -gt 2 ]; then X=--big; else X=--one; fi; vllm serve m $X
---
case "$M" in a*) Y=1;; m*|z) Y=2;; *) Y=3;; esac; vllm serve m --y $Y
---
start() { vllm serve "$1" --x "$2"; }; start m "a b"
---
for i in 1 2 3; do L="$L --l $i"; done; vllm serve m $L
---
read -r -a WORDS <<< "--a b --c"; vllm serve m "${WORDS[@]}"
---
IFS=- read -ra P <<< "a-b c-9000"; read -r X Y <<< "one two"; vllm serve m --port "${P[2]}" "${P[1]}" $X $Y
---
NAME=a/b/c; vllm serve m --n "${NAME//\//-}" "${NAME/\/b/_}" ${NAME//b/x}
---
declare -A SIZES=([small]=a/b [big]="c d"); WHICH=big; vllm serve "${SIZES[$WHICH]}" ${SIZES[small]}
---
declare -A SIZES; SIZES[small]=a; SIZES[big]=b; WHICH=small; vllm serve "${SIZES[${WHICH}]}" "${SIZES[big]}"
---
PORTS=(8000 9000); I=1; vllm serve m --port "${PORTS[$I]}" ${PORTS[0]}
---
CMD="vllm serve m --a 'b c'"; eval $CMD
---
eval "exec vllm serve \
  m --served-model-name "a" "b/c" \
  $EMPTY \
  $@"
---
true && vllm serve m || echo failed
---
X=${M##*/}; Y=${M%%d*}; Z=${M/b/c}; vllm serve m $X $Y $Z ${M^^} ${M:1:2} ${#M} ${M%l} ${M#m}
---
vllm serve m "$(echo hi there)" $(echo a b)
---
while true; do vllm serve m --w; break; done
---
until false; do vllm serve m --until; break; done
---
if ! [ -z "$M" ]; then vllm serve m --filled; fi
---
[[ "$M" == m* && $TP -ge 1 ]] && vllm serve m --glob
---
(( TP > 1 )) && vllm serve m --arith || vllm serve m --no
---
A=(1 2 3); vllm serve m "${A[1]}" "${A[@]:1}" "${A[*]}" ${A[0]}
---
inner() { local x=5; vllm serve m --x $x; return 0; }; inner
---
read -ra A <<< "--a 1 --b"; vllm serve m "${A[@]}"
---
vllm serve "${M} $0 $@ end" "$#" "${1:-none}" "${@:2}" "$*"
"""
CASES = SCRIPTS.strip("\n").split("\n---\n")


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `vllm` that writes down its arguments."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "vllm"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "with open(os.environ['OUT'], 'a') as out:\n    print(json.dumps(sys.argv[1:]), file=out)\n"
    )
    program.chmod(0o755)
    return folder


def received(text: str, rest: Sequence[str], fake: Path, folder: Path) -> list[str]:
    """The words that vLLM gets from a real bash."""
    out = folder / "out"
    subprocess.run(
        ["bash", "-c", text, *rest],
        env={**ENV, "PATH": f"{fake}:/usr/local/bin:/usr/bin:/bin", "OUT": str(out)},
        cwd=folder,
        capture_output=True,
        timeout=60,
        check=False,
    )
    words: list[str] = json.loads(out.read_text().splitlines()[0])
    return words


ENV = {"M": "model", "TP": "2", "EMPTY": ""}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("text", CASES)
def test_the_words_are_those_that_bash_makes(text: str, fake: Path, tmp_path: Path) -> None:
    """Each script is run by bash and read by us; vLLM gets the same words."""
    command = script(text, **ENV)
    assert command is not None
    assert ["serve", *(argv(command) or [])] == received(text, (), fake, tmp_path)
    assert not [word for word in command.words if word.unknown]
    assert command.guessed is None


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("text", OPAQUE.strip("\n").split("\n---\n"))
def test_what_is_not_followed_is_unknown_or_not_certain(text: str, fake: Path, tmp_path: Path) -> None:
    rest = ["zero", "one", "t w o"] if "$#" in text else []
    command = script(text, *rest, **ENV)
    assert command is not None
    assert agrees(command, received(text, rest, fake, tmp_path)[1:])
    assert command.guessed or [word for word in command.words if word.unknown]


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("vllm serve $(cat /model)", {"$(cat /model)": "command substitution $(cat /model)"}),
        ('G=$(nvidia-smi -L | wc -l); vllm serve m --tp "$G"', {"$(nvidia-smi -L | wc -l)": "command substitution"}),
        (
            "G=$(nvidia-smi --query-gpu=name | wc -l); vllm serve m --tp $G",
            {"$(nvidia-smi --query-gpu=name | wc -l)": "command substitution"},
        ),
        ("A=1; A=$(A=2; echo $A); vllm serve m --x $A", {"$(A=2; echo $A)": "command substitution"}),
        ("vllm serve m --x {a,b} y{1..2} {c}", {"{a,b}": "several words in bash", "y{1..2}": "several words in bash"}),
        ('vllm serve m --x={"a":1,"b":2}', {'--x={"a":1,"b":2}': "several words in bash"}),
        ("unset HOME; vllm serve m --x ~/y", {"~/y": "home directory"}),
        ("IFS=,; A=b,c; vllm serve m $A", {"": "IFS decides"}),
        ("local A=b; vllm serve m $A", {"$A": "declared with local"}),
        ("A=x; [[ 010 -eq 8 ]] && A=y; vllm serve m $A", {"$A": "it depends on"}),
        ("vllm serve m --n $((N + 1))", {"$((N + 1))": "arithmetic"}),
        ('vllm serve "$M"', {"$M": "$M is set neither in the container's env nor in the script"}),
        ("vllm serve m ${T:+--tool $T}", {}),
        ("read X; vllm serve $X", {"$X": "known only when the script runs"}),
        ("vllm serve m < /dev/null --x `date`", {"`date`": "command substitution"}),
    ],
)
def test_what_only_a_running_shell_knows_is_unknown(text: str, unknown: dict[str, str]) -> None:
    """The word stays as written and says why."""
    command = script(text)
    assert command is not None
    got = {word.text: word.unknown or "" for word in command.words if word.unknown}
    assert got.keys() == unknown.keys()
    assert all(why in got[text] for text, why in unknown.items())


def test_an_option_behind_an_unknown_condition_leaves_the_others_known() -> None:
    """`set -- "$@" --x` in a branch that may be taken."""
    command = script('set -- m; if nvidia-smi | grep -q H100; then set -- "$@" --fp8; fi; exec vllm serve "$@"')
    assert command is not None
    assert [(word.text, word.unknown) for word in command.words] == [
        ("m", None),
        ("$@", 'it depends on if nvidia-smi | grep -q H100; then set -- "$@" --fp8; fi'),
    ]


@pytest.mark.parametrize(
    ("text", "words", "cut_off"),
    [
        ("exec vllm serve m \\\n --a 1 \\\n # note \\\n --b 2 \\\n --c", ["m", "--a", "1"], ["--b", "2", "--c"]),
        ("vllm serve m # note \\\n --b 2 \\\n # note\n --c", ["m"], ["--b", "2", "--c"]),
        ("vllm serve m 2>&1 | tee log \\\n # note\n --b 2", ["m"], ["--b", "2"]),
        ("vllm serve m --a 1 \\ # note\n --b 2", ["m", "--a", "1", " #", "note"], ["--b", "2"]),
        ("vllm serve m \\ \n --b 2", ["m", " "], ["--b", "2"]),
        ("vllm serve m --a 1 \\\\ # note", ["m", "--a", "1", "\\"], []),
        ("vllm serve m 'a \\ # b' # note", ["m", "a \\ # b"], []),
        ("vllm serve m --a 1 # note\n# --b 2\necho -n", ["m", "--a", "1"], []),
    ],
)
def test_a_comment_ends_a_command(text: str, words: list[str], cut_off: list[str]) -> None:
    command = script(text)
    assert argv(command) == words
    assert command is not None
    assert [word.text for word in command.cut_off] == cut_off


@pytest.mark.parametrize(
    "text",
    [
        "until nc -z db 5432; do sleep 1; done; exec vllm serve m --no-such-flag",
        'if [ -z "$HF_TOKEN" ]; then exit 1; fi; vllm serve m',
        'wait_for() { until nc -z "$1" 1; do sleep 1; done; }; wait_for db; vllm serve m',
        "if x; then export A=1; fi; vllm serve m",
        "curl -sf http://x || exit 1; vllm serve m",
    ],
)
def test_a_server_after_an_opaque_statement_is_as_certain_as_before(text: str) -> None:
    command = script(text)
    assert command is not None
    assert command.guessed is None


@pytest.mark.parametrize(
    "text",
    [
        "if x; then exit; fi; vllm serve m",
        "[ -f x ] && exec python train.py; vllm serve m",
        "case $A in b) exit 0;; esac; vllm serve m",
        "stop() { exit 0; }; stop; vllm serve m",
        "if x; then return; fi; vllm serve m",
    ],
)
def test_a_server_after_a_possible_end_is_not_certain(text: str) -> None:
    command = script(text)
    assert command is not None
    assert command.guessed


def test_a_path_that_a_branch_sets_counts_as_set() -> None:
    command = script("if x; then export PATH=/mine/bin:$PATH; fi; vllm serve m")
    assert command is not None
    assert "code" in command.changes


def test_an_array_that_a_branch_extends_keeps_its_elements() -> None:
    command = script('A=(--x 1); curl -sf http://a && A+=(--y 2); vllm serve m "${A[@]}"')
    assert command is not None
    assert [(word.text, bool(word.unknown)) for word in command.words] == [
        ("m", False),
        ("--x", False),
        ("1", False),
        ("$A", True),
    ]


def test_the_first_branch_that_serves_counts() -> None:
    """A leader and a worker in one script."""
    text = 'if [ "$IDX" -eq 0 ]; then vllm serve m --leader; else vllm serve m --headless; fi'
    command = script(text)
    assert argv(command) == ["m", "--leader"]
    assert command is not None
    assert command.guessed
    assert command.may_follow


@pytest.mark.parametrize(
    ("text", "replaces"),
    [
        ("vllm serve m", True),
        ("vllm serve m 2>&1", True),
        ("exec vllm serve m", True),
        ("echo go; exec vllm serve m", True),
        ("echo go; vllm serve m", False),
        ("vllm serve m | tee log", False),
        ("vllm serve m & wait", False),
        ("cd /x && vllm serve m", False),
    ],
)
def test_whether_vllm_replaces_the_shell(text: str, replaces: bool) -> None:
    """A shell in between swallows SIGTERM."""
    command = script(text)
    assert command is not None
    assert command.shell
    assert command.exec is replaces


def test_blanks_to_fill_in_are_words() -> None:
    """Not redirections, and not known where a template engine fills them in."""
    command = script('vllm serve <MODEL> --name "{{ .Name }}" --tp {{ .Values.tp }} --port 1')
    assert command is not None
    assert [(word.text, bool(word.unknown)) for word in command.words] == [
        ("<MODEL>", False),
        ("--name", False),
        ("{{ .Name }}", True),
        ("--tp", False),
        ("{{ .Values.tp }}", True),
        ("--port", False),
        ("1", False),
    ]


def test_a_preset_of_go_templates_in_an_eval() -> None:
    """As KServe's presets are written: control blocks vanish, values are unknown."""
    text = """
    if [ "$INFER" = "true" ]; then for d in /sys/class/*; do devices+=("$d"); done; fi
    LOG="--quiet"
    V=$(vllm --version)
    if [[ "$V" =~ ^0 ]] && [ "$(printf '%s' "$V")" = "0" ]; then LOG="--paths /a"; fi
    eval "exec vllm serve \\
      /mnt/models --served-model-name "{{ .Spec.Model.Name }}" \\
      {{- if .Spec.Tensor }}--tensor-parallel-size {{ .Spec.Tensor }}{{- end }} \\
      --data-parallel-size {{ or .Spec.Data 1 }} ${LOG} ${MORE} $@"
    """
    command = script(text, "--", "--port", "1", MORE="--enforce-eager --x '{\"a\": 1}'")
    assert command is not None
    assert argv(command) == [
        *("/mnt/models", "--served-model-name", "{{ .Spec.Model.Name }}"),
        *("--tensor-parallel-size", "{{ .Spec.Tensor }}", "--data-parallel-size", "{{ or .Spec.Data 1 }}"),
        *("$LOG", "--enforce-eager", "--x", '{"a": 1}', "--port", "1"),
    ]
    assert command.exec
    assert command.lost == ()


@pytest.mark.parametrize(
    "text",
    [
        "# vllm serve m",
        "echo vllm serve m",
        "pkill -f 'vllm serve' || true; sleep infinity",
        'while ! pgrep -f "vllm serve"; do sleep 1; done',
        "vllm bench serve --model m --port 8000",
        "vllm launch render m",
        "pip install vllm; sleep infinity",
        "curl http://vllm:8000/v1/models",
        "hf download m && exit 0\nvllm serve m",
        "cat > run.sh <<EOF\nvllm serve m\nEOF\n",
        "python -m sglang.launch_server --model-path m",
        "exec sleep infinity\nvllm serve m",
        "echo 'vllm serve m' | sh",
        "cat <<END | bash\nvllm serve m\nEND",
        "'unclosed",
        "f() { f; }; f",
        "((((",
        "A=x; while true; do A=$A$A; done",
        'exec "$(command -v vllm)" serve m',
    ],
)
def test_scripts_that_serve_nothing(text: str) -> None:
    """Text that mentions vLLM and does not start it, and text that is not a script."""
    assert script(text) is None


def test_a_script_that_never_ends_is_given_up() -> None:
    """The walk is bounded."""
    calls = "".join(f"f{n}() {{ f{n + 1}; f{n + 1}; f{n + 1}; }}; " for n in range(12))
    for text in (calls + "f0; vllm serve m", "( " * 3000 + "vllm serve m" + " )" * 3000):
        command = script(text)
        assert command is not None
        assert command.unread is not None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("vllm serve m --name 'a b' \"c d\" # don't", None),
        ('echo "it\'s $(date "+%F") ok"; vllm serve m ${A:-"b c"}', None),
        ('A=\'{"a": "b"}\'; vllm serve m --x "$A" a\\"b', None),
        ("cat <<EOF\nit's\nEOF\nvllm serve m", None),
        ("echo $'it\\'s'; vllm serve m", None),
        ("vllm serve m --port 8000 \\", None),
        ("vllm serve m --name 'a b' \\", None),
        ("vllm serve m --name 'a b\\", "vllm serve m --name 'a b\\"),
        ('vllm serve m --name "a \\" b', 'vllm serve m --name "a \\" b'),
        ('vllm serve m --name "${A#*/}" # it\'s', None),
        ('set -e\nvllm serve m --name "a b\necho', 'vllm serve m --name "a b'),
        ('vllm serve m --kv \'{"a": 1}', 'vllm serve m --kv \'{"a": 1}'),
    ],
)
def test_a_quote_that_nothing_closes(text: str, line: str | None) -> None:
    command = script(text)

    assert command is not None
    assert command.unclosed == line


def test_a_config_that_the_script_writes_itself() -> None:
    command = script("cat > /tmp/c.yaml <<EOF\nport: $PORT\nEOF\nvllm serve m --config /tmp/c.yaml", PORT="9000")

    assert command is not None
    assert command.config == {"/tmp/c.yaml": "port: 9000\n"}


def test_escapes_of_c_are_not_read() -> None:
    command = script(r"vllm serve m --x $'a\tb'")

    assert command is not None
    assert [word.unknown is None for word in command.words] == [True, True, False]


@pytest.mark.parametrize("text", [r"X=a; [ a \< b ] && X=b; vllm serve $X", "X=a > $(b)\nvllm serve $X"])
def test_a_script_with_a_part_that_is_not_understood_is_doubted(text: str) -> None:
    command = script(text)

    assert command is not None
    assert command.survived == "a part of the script is not understood"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("text", [one.strip("\n") for one in UNCERTAIN.split("\n---\n")])
def test_what_is_not_read_exactly_is_unknown(text: str, tmp_path: Path) -> None:
    vllm = tmp_path / "bin" / "vllm"
    vllm.parent.mkdir()
    vllm.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    vllm.chmod(0o755)
    (tmp_path / "a.txt").touch()
    environment = {"PATH": f"{vllm.parent}:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["bash", "-c", text], cwd=tmp_path, env=environment, capture_output=True, check=True, encoding="utf-8"
    )
    _, *words = done.stdout.split("\0")[:-1]

    command = container({"image": "registry.example/team/base:1", "command": ["bash", "-c", text]})

    assert command is not None
    certain = command.unread is None and not command.branched and all(word.unknown is None for word in command.words)
    assert not certain or argv(command) == words
    assert all(word.unknown is not None or word.text in words or command.branched for word in command.words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A=(a b); A=c", ["c", "b"]),
        ("A=(a b); A+=c", ["ac", "b"]),
        ("A=(a b); export A=c", ["c", "b"]),
        ('A=(a b); export "A=c"', ["c", "b"]),
        ("A=(); A=c", ["c"]),
    ],
)
def test_a_text_is_the_first_element_of_an_array(text: str, words: list[str]) -> None:
    found = script(f'{text}; vllm serve m "${{A[@]}}"', program="bash", A="from-the-manifest")
    assert argv(found) == ["m", *words]
    assert found is not None
    assert "A" not in found.env


def test_an_option_with_an_equals_sign_is_no_variable() -> None:
    found = script("export --port=8000\nvllm serve m", program="bash")
    assert found is not None
    assert "--port" not in found.env


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ('set -- $((-x)) b; vllm serve m "$@"', [True, False]),
        ('A=(c $((-x))); vllm serve m "${A[@]}"', [True, False]),
        ("export A=c B=$((-x)); vllm serve m $A", [True, False]),
        ("A=c B=$((-x)); vllm serve m $A", [True, False]),
        ("N=$((-x)); vllm serve m $A", [True, True]),
    ],
)
def test_arithmetic_that_may_fail_leaves_everything_as_it_was(text: str, known: list[bool]) -> None:
    """bash 5.2: the value "v w" of x is a syntax error, and the command is not run."""
    found = script(text, "sh", "a", program="bash", x="v w", A="a")
    assert found is not None
    assert [word.unknown is None for word in found.words] == known
