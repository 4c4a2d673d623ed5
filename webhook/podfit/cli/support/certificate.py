"""The source of `podfit serve`'s certificate: two files, or a Secret that the server maintains."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from podfit.cli.support.edge import UnusableError

if TYPE_CHECKING:
    from podfit.cluster import Access
    from podfit.server.certs.serving import Serving

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The server's certificate, and the clients'."""
    group = parser.add_argument_group("certificate", "--cert and --key, or --certificate-secret (docs/security.md)")
    group.add_argument("--cert", type=Path, metavar="FILE", help="serving certificate, PEM; read again when it changes")
    group.add_argument("--key", type=Path, metavar="FILE", help="its private key, PEM")
    group.add_argument(
        "--certificate-secret",
        metavar="NAME",
        help="a Secret of this namespace for a CA and a certificate. The replicas of this server create and renew "
        "both, and put the CA into the webhook configurations",
    )
    group.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="DNS name or IP address in the certificate; can be repeated",
    )
    group.add_argument(
        "--webhook-configurations",
        default="podfit",
        metavar="NAME",
        help="the ValidatingWebhookConfiguration and MutatingWebhookConfiguration that get its CA (default: podfit)",
    )
    for flag, default, what in (
        ("--ca-lifetime", "365d", "of a CA"),
        ("--certificate-lifetime", "90d", "of a certificate; both are renewed at two thirds"),
        ("--ca-pause", "1m", "a new CA must have been in both configurations before a certificate of it serves"),
    ):
        group.add_argument(
            flag, type=duration, default=default, metavar="TIME", help=f"how long: {what} (default: {default})"
        )
    group.add_argument(
        "--client-ca",
        type=Path,
        metavar="FILE",
        help="reviews are answered only where the client (the API server) shows a certificate of this CA",
    )


def duration(text: str) -> timedelta:
    """A duration such as 90d, 12h, 10m or 30s."""
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 90d, 12h, 10m or 30s")
    return timedelta(**{UNITS[match[2]]: int(match[1])})


def serving(args: argparse.Namespace, access: Access | None) -> Serving:
    """The certificate that the arguments choose; raises UnusableError if there is none."""
    if args.certificate_secret and (args.cert or args.key):
        raise UnusableError("--certificate-secret and --cert are two certificates; give one of them")
    if args.client_ca is not None and not args.client_ca.is_file():
        raise UnusableError(f"--client-ca {args.client_ca}: no such file", 3)
    if args.certificate_secret:
        return _from_secret(args, access)
    if not (args.cert and args.key):
        raise UnusableError("a certificate is needed: --cert and --key, or --certificate-secret")
    from podfit.server.certs.serving import CertificateFiles

    files = CertificateFiles(args.cert, args.key, args.client_ca)
    if why := files.problem():
        raise UnusableError(why, 3)
    return files


def _from_secret(args: argparse.Namespace, access: Access | None) -> Serving:
    """Certificates in a Secret, which this server renews; raises UnusableError."""
    if access is None:
        raise UnusableError(
            "--certificate-secret: this is not a Pod with a service account token, and --kubeconfig is not set", 3
        )
    if not args.host:
        raise UnusableError("--certificate-secret: --host is needed, such as podfit.podfit-system.svc")
    if args.certificate_lifetime >= args.ca_lifetime:
        raise UnusableError("--certificate-lifetime must be shorter than --ca-lifetime")
    from podfit.server.certs.keeper import Keeper
    from podfit.server.certs.renewal import RenewalPolicy

    terms = RenewalPolicy(tuple(dict.fromkeys(args.host)), args.ca_lifetime, args.certificate_lifetime, args.ca_pause)
    try:
        return Keeper(access, args.certificate_secret, args.webhook_configurations, terms, args.client_ca)
    except ValueError as error:
        raise UnusableError(f"--host {' '.join(args.host)}: {error}") from error
    except OSError as error:
        raise UnusableError(f"--client-ca {args.client_ca}: {error}", 3) from error
