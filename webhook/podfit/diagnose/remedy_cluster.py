"""A line of the scheduler, the kubelet or a registry → the change that helps, with the line's own values."""

from __future__ import annotations

import re
from collections.abc import Iterator


def unschedulable(text: str) -> Iterator[str]:
    """Sentences on the remedy of a Pod that is not scheduled, by the scheduler's reasons (kube-scheduler
    pkg/scheduler/framework/plugins)."""
    for resource in dict.fromkeys(re.findall(r"Insufficient ([\w./-]+\w)", text)):
        yield f"No node has enough free {resource}: lower the Pod's request, or add a node that has it."
    taints = re.findall(r"untolerated taint(?:\(s\))? \{([\w./-]+)|had taint \{([\w./-]+)", text)
    for taint in dict.fromkeys(first or second for first, second in taints):
        if not taint.startswith("node.kubernetes.io/"):
            yield f"If the Pod may run there, add a toleration for the taint {taint}."
    if re.search(r"didn't match (?:Pod's )?node (?:affinity|selector)", text):
        yield "Compare nodeSelector and nodeAffinity with the labels of the nodes (`kubectl get nodes --show-labels`)."
    if re.search(r"unbound (?:immediate )?PersistentVolumeClaim", text):
        yield "A claim of the Pod is not bound: `kubectl describe pvc` names the reason."


def image(text: str) -> Iterator[str]:
    """The reason why a registry gives no image (containerd, docker)."""
    match = re.search(r"image:? \\?\"([^\"\\\s]+)", text)
    name = match[1] if match else "the image"
    if re.search(r"no match(?:ing manifest)? for", text):
        yield f"{name} has no variant for the node's architecture: use one that has, or another nodeSelector."
    elif re.search(r"toomanyrequests|pull rate limit|429 Too Many", text):
        yield "The registry limits the rate of pulls: give the Pod imagePullSecrets, or use a mirror."
    elif re.search(r"manifest unknown|: not found|manifest for \S+ not found", text):
        yield f"The registry has no {name}: correct its name or tag."
    elif re.search(r"unauthorized|denied|40[13]\b", text):
        yield f"The registry denies {name}: give the Pod imagePullSecrets, or correct the name of a public image."
    elif re.search(r"i/o timeout|no such host|connection refused|TLS handshake|x509", text):
        yield f"The node does not reach the registry of {name}: check its DNS, proxy and certificates."


def command(text: str) -> Iterator[str]:
    """Advise on a command that the container runtime can't run: its name and the reason are in `text`."""
    if match := re.search(r"exec: \\?\"([^\"\\]+)\\?\": (?:stat [^:]*: )?(executable|no such file|permission)", text):
        name, reason = match[1], match[2]
        if " " in name:
            yield f"Write each word of {name!r} as an element of command and args of its own."
        elif reason == "permission":
            yield f"{name} in the image is not executable: begin command with its interpreter, such as sh."
        else:
            yield (
                f"The image has no {name}. `command` replaces the image's entrypoint: leave it out, or name a program "
                "of the image."
            )
