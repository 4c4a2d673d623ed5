"""What a secret is, what is none, and how a text looks without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from podfit.base.secret import FORMS, MAX_SECRETS, MAX_VALUES, UNMASKED, WITHHELD, Secrets, is_secret_name, secrets_in
from podfit.cli import main
from podfit.cli.check import FORMATS
from podfit.evaluation import denial, review
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.vllm.facts import Facts

KEYS = [
    "sk-live-0123456789abcdef",
    "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345",
    "nvapi-0123456789abcdef0123456789abcdef",
    "correct-horse-battery",
    "2b1f8e77c0",
    "hunter.two",
    "s3",
    "k3y",
]
FORMED = [
    ["--api-key {}"],
    ["--model m --api-key {}"],
    ["--api-key={} --no-such-flag"],
    ["api-key={}"],
    ["--middleware", "Authorization: Bearer {}", "Authorization: Bearer {}"],
]
REPEATED = [
    ["--api-key", "{}", "{}"],
    ["--no-such-flag", "{}", "--hf-token={}"],
    ["--max-num-seqs", "{}", "--api-key", "{}"],
    ["--quantization", "{}", "--api-key", "{}"],
]
"""Also where the value appears without its name. A value of two characters looks like any other word there."""
CASES = [(form, key) for form in FORMED for key in KEYS] + [(form, key) for form in REPEATED for key in KEYS[:-2]]


def _pod(args: list[str], **fields: Any) -> dict[str, Any]:
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.27.1", "args": ["Qwen/Qwen3-8B", *args], **fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [container]}}


@pytest.mark.parametrize(("form", "key"), CASES)
def test_a_secret_is_in_no_message(form: list[str], key: str) -> None:
    report = lint(_pod([word.format(key) for word in form]), builtin(), Facts(), where="check")

    said = [*denial.warnings(report), *([denial.refusal(report)] if report.denied else [])]
    for judged in report.findings:
        finding = judged.finding
        said += [finding.message, *finding.details, *judged.suggestions, judged.why_softened or ""]
    assert not report.errors
    assert report.findings
    assert not [line for line in said if key in line]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("fmt", FORMATS.names)
def test_a_secret_is_in_no_report(key: str, fmt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(_pod([f"--api-key {key}", f"api-key={key}"]), indent=1))

    assert main(["check", "--format", fmt, str(file)]) == 1
    assert key not in capsys.readouterr().out


# ── Repairs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _checked(tmp_path: Path, capsys: pytest.CaptureFixture[str], pod: dict[str, Any], *words: str) -> dict[str, Any]:
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(pod))
    main(["check", "--format", "json", *words, str(file)])
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert isinstance(result, dict)
    return result


def _of(result: dict[str, Any], rule: str) -> dict[str, Any]:
    return next(row for row in result["findings"] if row["rule"] == rule)


def test_no_repair_rewrites_a_text_with_a_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod = _pod(["--max-model-len 4096", f"--api-key {KEYS[0]}"])
    result = _checked(tmp_path, capsys, pod)
    rows = [row for row in result["findings"] if row["rule"] == "argument-string-not-split"]

    assert [(row["masked"], row["fix"] is None) for row in rows] == [(False, False), (True, True)]
    assert rows[1]["details"] == ["not repaired: the text contains a secret"]
    assert (result["masked"], result["patch"]) == (True, None)
    main(["fix", str(tmp_path / "pod.json")])
    out, err = capsys.readouterr()
    assert '+    "--max-model-len=4096"' in out or "--max-model-len=4096" in out
    assert f"--api-key={KEYS[0]}" not in out
    assert KEYS[0] not in err


def test_a_patch_that_would_show_a_secret_beside_what_it_repairs_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two items in place of one: JSON Patch replaces the list, which also contains a key."""
    pod = _pod(["--max-model-len 8_192 --port=8001", "--api-key", KEYS[3]])
    result = _checked(tmp_path, capsys, pod)
    shown = _checked(tmp_path, capsys, pod, "--show-secrets")

    assert KEYS[3] not in json.dumps(result)
    assert KEYS[3] in json.dumps(shown["patch"])
    assert result["patch"] is None
    assert _of(result, "argument-string-not-split")["fix"] is None
    assert _of(result, "argument-string-not-split")["masked"]


def test_the_mutating_webhooks_patch_is_never_masked_and_what_it_says_is() -> None:
    pod = _pod(["--api-key", KEYS[3], "--no-such-flag", KEYS[3], "--tensor-parallel-size", "2"])
    pod["spec"]["containers"][0]["image"] = "vllm/vllm-openai:v0.6.3"
    asked = review.Request("1", "CREATE", "", "Pod", "pods", "", "x", "x", pod, None, False)

    for answer in (review.validate(asked, builtin(), Facts()), review.mutate(asked, builtin(), Facts())):
        assert KEYS[3] not in json.dumps(answer)


def test_secrets_are_shown_to_whom_asks_for_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod = _pod(["--api-key", KEYS[3], "--no-such-flag", KEYS[3]])
    hidden, shown = (_checked(tmp_path, capsys, pod, *words) for words in ((), ("--show-secrets",)))

    assert hidden["plan"]["engine"]["arguments"]["api_key"] == ["*" * len(KEYS[3])]
    assert hidden["plan"]["engine"]["masked"] == ["api_key", "no_such_flag"]
    assert shown["plan"]["engine"]["arguments"]["api_key"] == [KEYS[3]]
    assert shown["plan"]["engine"]["masked"] == []
    assert (hidden["masked"], shown["masked"]) == (True, False)


# ── What is one ──────────────────────────────────────────────────────────────────────────────────────────────────────

FLAGS = (
    "--api-key",
    "--API_KEY",
    "--hf-token",
    "--api_token",
    "--hf_key",
    "--ssl-keyfile-password",
    "—api-key",
    "--key",
)
NAMES = ("apiKey", "my-api-key", "APIKEY", "Hf_Token", "A_TOKEN", "MY_KEY", "DB_SECRET", "X9_PASSWORD", "db_passwd")
STARTS = ("hf_A0", "sk-", "nvapi-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "AKIA0123456789", "gsk_", "xoxb-")


@pytest.mark.parametrize(
    ("words", "key"),
    [
        *((f"{flag}{mark}s3cr3t-v4lue", "s3cr3t-v4lue") for flag in FLAGS for mark in (" ", "=", " \\\n  ", "', '")),
        *((f'{name}: "s3cr3t-v4lue"', "s3cr3t-v4lue") for name in NAMES),
        *((f"see {start}ABCDEF", f"{start}ABCDEF") for start in STARTS),
        ("authorization: BEARER s3cr3t-v4lue", "s3cr3t-v4lue"),
        ("curl -H 'X-Api-Key: s3cr3t' http://x", "s3cr3t"),
        ("curl -u admin:s3cr3t http://x", "s3cr3t"),
        ("mysql -u root -ps3cr3t -h db", "s3cr3t"),
        ("sshpass -p 's3cr3t' scp a b:", "s3cr3t"),
        ("redis-cli -h cache -a s3cr3t ping", "s3cr3t"),
        ("docker login -u me -p s3cr3t registry.example.com", "s3cr3t"),
        ("echo s3cr3t | helm registry login example.com --password-stdin", "s3cr3t"),
        ("printf '%s' \"s3cr3t\" > /root/.cache/huggingface/token", "s3cr3t"),
        ("wandb login --relogin s3cr3t", "s3cr3t"),
        ("curl https://hooks.slack.com/services/T0/B0/s3cr3t-v4lue", "T0/B0/s3cr3t-v4lue"),
        ("post to https://discord.com/api/webhooks/12/s3cr3t-v4lue now", "12/s3cr3t-v4lue"),
        ("machine example.com login me password s3cr3t", "s3cr3t"),
        ("aws configure set aws_secret_access_key s3cr3t", "s3cr3t"),
        ('{"auth": {"bearer": "s3cr3t"}}', "s3cr3t"),
        ('{"token": {"value": "s3cr3t", "type": "plain"}}', "s3cr3t"),
        ("Namespace(api_key='a,b)c', port=8000)", "a,b)c"),
        ("non-default args: {'hf_token': \"it's\", 'model': 'm'}", "it's"),
        ('{"a": [{"password": "a \\"b\\", c"}]}', 'a \\"b\\", c'),
        ('{"password": "no end, no brace', "no end, no brace"),
        ("{password: bare, port: 8000}", "bare"),
        ('{"name":"HF_TOKEN","value":"abc"}', "abc"),
        ('{\\"name\\": \\"HF_TOKEN\\", \\"value\\": \\"abc\\"}', "abc"),
        ("- name: HF_TOKEN\n  value: abc", "abc"),
        ("export HF_TOKEN=abc; vllm serve m", "abc"),
        ('os.environ["HF_TOKEN"] = "abc"', "abc"),
        ("https://user:p@ss@host/x", "p@ss"),
        ("s3://:abc@bucket", "abc"),
        ("https://0123456789abcdef@github.com/x.git", "0123456789abcdef"),
        ("https://x/y?a=1&sig=Zm9v%3D&b=2", "Zm9v%3D"),
        ("--api-key $(KEY)x1", "$(KEY)x1"),
    ],
)
def test_every_form_of_a_secret_is_found(words: str, key: str) -> None:
    assert secrets_in(words) == {key}
    assert key not in FORMS.masked(words, quoted=True)


def test_the_access_key_of_a_bucket_is_one() -> None:
    assert FORMS.masked("s3://minioadmin:SecretPart99x@h/b") == "s3://**********:*************@h/b"
    assert FORMS.masked("redis://x9Z2kq77RR:SecretPart99x@h") == "redis://**********:*************@h"
    assert FORMS.masked("https://my-user-name:SecretPart99x@h") == "https://my-user-name:*************@h"


def test_a_private_key_is_one() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKC0\nAQEAuNMIIEow7\n-----END RSA PRIVATE KEY-----"

    assert "MIIEowIBAAKC0" not in FORMS.masked(f"key: {key}")
    assert "AQEAuNMIIEow7" not in Secrets.of({"env": [{"name": "A", "value": key}]}).masked(
        "AQEAuNMIIEow7 is no number", quoted=True
    )


@pytest.mark.parametrize(
    "script",
    [
        "read KEY <<< s3cr3t-v4lue; vllm serve m --max-num-seqs $KEY",
        "IFS= read -rp 'key: ' API_KEY <<< 's3cr3t-v4lue'",
        "read USER PASSWORD <<< 'me s3cr3t-v4lue'",
        "read -r HF_TOKEN <<EOF\ns3cr3t-v4lue\nEOF",
        "mapfile -t API_KEYS <<< s3cr3t-v4lue",
        "echo s3cr3t-v4lue | read TOKEN",
        "HF_TOKEN=$(cat <<EOF\ns3cr3t-v4lue\nEOF\n)",
        "HF_TOKEN=$(echo s3cr3t-v4lue)",
        "HF_TOKEN=\"$(printf '%s' 's3cr3t-v4lue')\"",
        "HF_TOKEN=`echo -n s3cr3t-v4lue`",
        "vllm serve m --api-key $(echo s3cr3t-v4lue)",
        "HF_TOKEN=$'s3cr3t-v4lue'",
        "printf -v HF_TOKEN %s s3cr3t-v4lue",
        "HF_TOKEN='s3cr3t''-v4lue'",
        'HF_TOKEN=s3cr3t"-v4lue"',
        'HF_TOKEN=s3; HF_TOKEN+="s3cr3t-v4lue"',
        "KEY=s3cr3t-v4lue-and-more; vllm serve m --max-num-seqs ${KEY:0:12}",
        'A=s3cr3t-v4lue; B=$A; HF_TOKEN="${B}"',
        "echo s3cr3t-v4lue | tee /root/.cache/huggingface/token",
        "echo 's3cr3t-v4lue' > /tmp/hf_token",
        "cat > /run/token <<EOF\ns3cr3t-v4lue\nEOF",
        "cat <<EOF > /run/api_key.txt\ns3cr3t-v4lue\nEOF",
        "echo s3cr3t-v4lue | hf auth login",
        "docker login --password-stdin <<< s3cr3t-v4lue",
        "vault login s3cr3t-v4lue",
        "mc alias set store http://minio:9000 admin s3cr3t-v4lue",
        "az login --service-principal -u app -p s3cr3t-v4lue",
        "ngrok config add-authtoken s3cr3t-v4lue",
        "openssl enc -d -k s3cr3t-v4lue -in model.enc",
        "openssl enc -d -pass pass:s3cr3t-v4lue -in model.enc",
        "unzip -P s3cr3t-v4lue model.zip",
        "python -c \"from huggingface_hub import login; login('s3cr3t-v4lue')\"",
    ],
)
def test_what_a_script_does_with_a_secret_does_not_show_it(script: str) -> None:
    secrets = Secrets.of({"args": [script]})

    assert secrets.masked("invalid int value: 's3cr3t-v4lue'") == "invalid int value: '************'"


@pytest.mark.parametrize(
    "words",
    [
        "echo org/model > /tmp/model; export HF_TOKEN=$(cat /run/token)",
        "read -r MODEL PORT <<< 'org/model 8000'; HF_TOKEN=$(cat /run/token)",
        "cat > /tmp/vllm.yaml <<EOF\nmodel: org/model\nEOF\nlogin() { :; }",
        "echo starting | tee /tmp/tokenizer.log; echo ready > /tmp/max_tokens",
        "MODEL=org/model; NAME=$MODEL; N=${MODEL:0:3}; vllm serve $NAME",
        "for KEY in a b; do echo $KEY; done; KEY=${KEY:-}; TOKENS=$(echo 8192)",
        "openssl req -new -key tls.key -out tls.csr; zip -r model.zip model",
        "--max-num-batched-tokens $(echo 8192) --api-key $(cat /run/key)",
        "--api-key $(VLLM_API_KEY) --port 8000",
        "--api-key --port 8000",
        "--api-key ${KEY} --hf-token <TOKEN>",
        "HF_TOKEN=\nexec vllm serve m",
        "--hf-overrides {} --hf_overrides hf_config_path task-force",
        "--max-num-batched-tokens 8192 --tokenizer org/name --tokenizer-mode auto --spec-tokens 3",
        "--ssl-keyfile /etc/tls/tls.key --ssl-ca-certs /etc/tls/ca.pem",
        "HF_TOKEN_PATH=/run/token TOKENIZERS_PARALLELISM=false HF_HUB_DISABLE_IMPLICIT_TOKEN=1",
        "automountServiceAccountToken: false",
        "max_tokens: 8192",
        'eos_token: "<|im_end|>", pad_token: </s>, num_key_value_heads: 8',
        "topologyKey: kubernetes.io/hostname, secretName: tls, imagePullSecret: regcred",
        "KeyError: 'model.layers.0', Missing key: lm_head",
        "oci://registry:5000/model@sha256:0a1b http://localhost:8000/v1@2",
        "docker run -u 1000:1000 x",
        "bash --login -c 'mkdir -p models-8b && mysql -p db'",
        "wandb login --relogin",
        'echo "$HF_TOKEN" > ~/.cache/huggingface/token',
        "echo $REGISTRY | docker login --password-stdin",
        "--api-key EMPTY",
        "--api-key sk-REDACTED, HF_TOKEN: hf_xxxxxxxxxxxx",
        "pip install sk-learn",
        "key: nvidia.com/gpu",
        "--max-num-batched-token=32768",
        'if [ -n "${HF_TOKEN:-}" ]; then exec vllm serve m; fi',
    ],
)
def test_what_is_no_secret_stays(words: str) -> None:
    assert not secrets_in(words)
    assert FORMS.masked(words, quoted=True) == words
    assert Secrets.of({"args": [words]}).masked(words) == words


@pytest.mark.parametrize(
    ("name", "one"),
    [
        *((name, True) for name in (*(flag for flag in FLAGS if flag != "--key"), *NAMES)),
        *(
            (name, True)
            for name in ("Authorization", "X-Api-Key", "api_keys", "HF_TOKEN_2", "secretValue", "GITHUB_PAT")
        ),
        *(
            (name, True)
            for name in ("--my-token", "--mytoken", "--hf-secret", "--auth-password", "--db-pass", "AWS_ACCESS_KEY_ID")
        ),
        *(
            (name, True)
            for name in ("--pw", "--pass", "--pwd", "DBPWD", "PASSWD", "MYSQL_PASSWD", "dbpasswd", "BEARER")
        ),
        *((name, True) for name in ("--token-id", "MODAL_TOKEN_ID", "--salt", "cache_salt", "SECRET_KEY_BASE")),
        *((name, False) for name in ("--bos-token-id", "eostoken", "key_id", "--bypass", "OLDPWD", "imagePullSecret")),
        *((name, False) for name in ("key", "tokens", "max_tokens", "tokenizer", "keyfile", "TOKEN_PATH", "PWD")),
        *(
            (name, False)
            for name in ("eos_token", "public_key", "topologyKey", "pullSecret", "x" * 1000 + "_token", "")
        ),
    ],
)
def test_names_of_secrets(name: str, one: bool) -> None:
    assert is_secret_name(name) is one


# ── Of an object ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("tree", "key"),
    [
        ({"env": [{"name": "TOKEN", "value": "a b"}]}, "a b"),
        ({"env": [{"name": "token", "value": 1234567}]}, "1234567"),
        ({"args": ["--api-key", "a b"]}, "a b"),
        ({"args": ["--api-key=a b; c"]}, "a b; c"),
        ({"args": ["--api-key", "-dashed-value"]}, "-dashed-value"),
        ({"httpHeaders": [{"name": "Authorization", "value": "Basic YTpi"}]}, "YTpi"),
        ({"metadata": {"annotations": {"acme.io/api-token": "abc1"}}}, "abc1"),
        ({"volumeAttributes": {"secret_key": "abc1"}}, "abc1"),
        ({"api_key": ["one1", "two2"]}, "two2"),
        ({"kind": "Secret", "stringData": {"anything": {"at": ["all1"]}}}, "all1"),
    ],
)
def test_a_secret_by_its_place(tree: Any, key: str) -> None:
    assert key in (Secrets.of(tree).values or ())


@pytest.mark.parametrize(
    ("secret", "said", "shown"),
    [
        ("s3cr3t-v4lue", "'S3CR3T_v4lue' is unknown", "'************' is unknown"),
        ("s3cr3t-v4lue", "xs3cr3t-v4luey", "x************y"),
        ("word", "sword word --word-x 'word'", "sword **** --word-x '****'"),
        ("a\"b'c", "value: " + repr("a\"b'c"), "value: '******'"),
        ("a/b c+d1", "at a%2Fb%20c%2Bd1", "at **************"),
        ("8192", "--api-key 8192 is one word, --max-model-len 8192 another", None),
        ("0123456789abcdefghij", "cut after '0123456789abcdef…'", "cut after '****************…'"),
        ("correct\nhorse-2 battery", "battery horse-2", None),
    ],
)
def test_a_known_secret_is_masked_in_every_spelling(secret: str, said: str, shown: str | None) -> None:
    expected = {"8192": "--api-key **** is one word, --max-model-len 8192 another"}.get(secret, said)

    assert Secrets.of({"args": ["--api-key", secret]}).masked(said) == (shown or expected)


@pytest.mark.parametrize(
    ("args", "secret"),
    [
        (["--api-key", "abc-1", "0123456789abcdef0123"], "0123456789abcdef0123"),
        (["--api-key", "abc-1", "0123456789abcdef0123", "A123456789abcdef0123"], "A123456789abcdef0123"),
        (["vllm serve m --api-key ${API_KEY:-correct-horse-2}"], "correct-horse-2"),
        (["export HF_TOKEN=${HF_TOKEN:=correct-horse-2}; vllm serve m"], "correct-horse-2"),
    ],
)
def test_keys_in_a_row_and_defaults_of_variables_are_secrets(args: list[str], secret: str) -> None:
    assert Secrets.of({"args": args}).masked(f"{secret} is ignored") == f"{'*' * len(secret)} is ignored"


def test_the_model_after_a_key_stays() -> None:
    assert (
        Secrets.of({"args": ["--api-key", "abc-1", "Llama-3.1-8B-Instruct"]}).masked("Llama-3.1-8B-Instruct")[0] == "L"
    )


def test_a_user_of_many_words_in_a_url_is_read_once() -> None:
    """A regular expression with two ways through each word would never return."""
    user = "ab-" * 100 + "!"

    assert Secrets.of([f"https://{user}@host/"]).masked(f"at {user}") == f"at {'*' * len(user)}"


def test_what_quotes_an_object_with_too_many_secrets_is_withheld() -> None:
    few, many = (
        [{"name": "TOKEN", "value": f"value-{n}"} for n in range(count)] for count in (MAX_SECRETS, MAX_SECRETS + 1)
    )

    assert Secrets.of(few).masked("value-7 is bad") == "******* is bad"
    assert Secrets.of(many).masked("value-7 is bad") == WITHHELD


def test_what_quotes_an_object_with_too_many_values_is_withheld() -> None:
    few, many = ({"args": ["--api-key", "value-7", *["x"] * count]} for count in (MAX_VALUES - 3, MAX_VALUES - 2))

    assert Secrets.of(few).masked("value-7 is bad") == "******* is bad"
    assert Secrets.of(many).masked("value-7 is bad") == WITHHELD
    assert Secrets.of(few).places == (("args", 1),)
    assert Secrets.of(many).places == ()
    assert Secrets.of(few).hold(many)


def test_nothing_is_masked_where_secrets_are_shown() -> None:
    assert UNMASKED.masked("--api-key hf_ABCDEF0123") == "--api-key hf_ABCDEF0123"
    assert UNMASKED.masked_value({"api_key": "abc"}) == {"api_key": "abc"}
