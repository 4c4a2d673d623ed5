"""Where `podfit serve` gets its certificate: what contradicts itself, or can't be had, is one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from podfit.cli import main
from podfit.server import certs

FILES = ["--cert", "tls.crt", "--key", "tls.key"]
KEPT = ["--certificate-secret", "podfit-certificates", "--kubeconfig", "kubeconfig", "--watch", "none"]
LINES: list[tuple[list[str], int, str]] = [
    ([], 2, "a certificate is needed: --cert and --key, or --certificate-secret"),
    (["--cert", "tls.crt"], 2, "a certificate is needed: --cert and --key, or --certificate-secret"),
    ([*FILES, *KEPT], 2, "--certificate-secret and --cert are two certificates; give one of them"),
    (["--cert", "none.crt", "--key", "tls.key"], 3, "none.crt: no such file or directory"),
    (["--cert", "ca.crt", "--key", "tls.key"], 3, "ca.crt, tls.key: the private key is not the certificate's"),
    ([*FILES, "--client-ca", "none.crt"], 3, "--client-ca none.crt: no such file"),
    (
        ["--certificate-secret", "a"],
        3,
        "--certificate-secret: this is not a Pod with a service account token, and --kubeconfig is not set",
    ),
    ([*FILES, "--kubeconfig", "none"], 3, "--kubeconfig none: no such file or directory"),
    (KEPT, 2, "--certificate-secret: --host is needed, such as podfit.podfit-system.svc"),
    ([*KEPT, "--host", "höst"], 2, "--host höst: DNSName values should be passed as an A-label string."),
    (
        [*KEPT, "--host", "a.svc", "--certificate-lifetime", "9d", "--ca-lifetime", "9d"],
        2,
        "--certificate-lifetime must be shorter than --ca-lifetime",
    ),
]


@pytest.mark.parametrize(("words", "code", "said"), LINES, ids=[said for _, _, said in LINES])
def test_it_says_in_one_line_why_it_can_t_serve(
    words: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    certs.write(tmp_path, ["localhost"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    server = {"server": "https://127.0.0.1:1", "certificate-authority": "ca.crt"}
    context = {"cluster": "c", "user": "u", "namespace": "podfit-system"}
    config = {
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": context}],
        "current-context": "x",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))

    assert main(["serve", "--bind", "127.0.0.1:0", *words]) == code
    assert capsys.readouterr().err.startswith(f"error: {said}")


@pytest.mark.parametrize("text", ["0d", "9", "d", "-1d", "9w", "1.5h", "9999999d", ""])
def test_a_time_is_a_number_and_a_unit(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", f"--ca-lifetime={text}"])
    assert f"{text!r} is not a duration such as 90d, 12h, 10m or 30s" in capsys.readouterr().err
