"""A real cluster of one node, inside the namespaces of `namespaces.py`: all processes of a cluster, and containerd.

Tests call its API server with the `Cluster` of the e2e suite. All ports and addresses are fixed: nothing else is in
this network namespace, and nothing leads out of it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import yaml

from podfit.server import certs
from tests.e2e import binaries
from tests.e2e.controlplane import ADMIN, CONTROLLERS, HOST, Cluster, service_account_keys
from tests.e2e.process import kill, start, tail, until
from tests.node import image, namespaces

JSONDict = dict[str, Any]
NODE, DOMAIN = "node", "cluster.local"
BRIDGE, GATEWAY, PODS, SERVICES = "podfit0", "10.244.0.1", "10.244.0.0/16", "10.96.0.0/16"
PORT = 6443
GPU = "nvidia.com/gpu"
"""The node reports some that it does not have."""
SOCKET = "/run/containerd/containerd.sock"
ETCD = f"http://{HOST}:2379"


@dataclass
class Node:
    """The running cluster."""

    cluster: Cluster
    commands: Mapping[str, Sequence[str | Path]]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Starts one of its processes."""
        self.processes[name] = start(self.commands[name], self.log(name))

    def restart(self, name: str) -> None:
        """Ends a process with SIGTERM, as a service manager does, and starts it again."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        process.wait()
        self.start(name)

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Stops a process until the block ends."""
        self.processes[name].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.processes[name].send_signal(signal.SIGCONT)

    def log(self, name: str) -> Path:
        """Where a process writes."""
        return self.cluster.root / f"{name}.log"

    def logs(self) -> str:
        """The end of each log, for a failure."""
        return "\n".join(tail(self.log(name), 15) for name in self.commands)

    def ready(self) -> bool:
        """Whether the node reports that it is ready."""
        status, node = self.cluster.call("GET", f"/api/v1/nodes/{NODE}")
        conditions = node["status"].get("conditions", []) if status == 200 else []
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def heartbeat(self) -> str:
        """When the kubelet renewed its lease last, in RFC 3339: one that starts renews it at once."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}"
        return str(self.cluster.call("GET", path)[1]["spec"]["renewTime"])

    def serves(self, address: str) -> bool:
        """Whether kube-proxy sends new connections to this Pod."""
        rules = subprocess.run(["iptables", "-w", "-t", "nat", "-S"], capture_output=True, text=True, check=True)
        return f"--to-destination {address}:" in rules.stdout

    def resolves(self, service: str, namespace: str) -> None:
        """Lets Pods find the address of a Service by its name."""
        status, found = self.cluster.call("GET", f"/api/v1/namespaces/{namespace}/services/{service}")
        assert status == 200, found
        line = f"{found['spec']['clusterIP']} {service}.{namespace}.svc.{DOMAIN}\n"
        (self.cluster.root / "hosts" / f"{service}.{namespace}").write_text(line)

    def cgroup(self, container: str) -> Path:
        """The memory cgroup of a container; `container` is a `containerID` of a Pod's status."""
        (found,) = (namespaces.CGROUPS / "memory").rglob(container.removeprefix("containerd://"))
        return found


@contextmanager
def running() -> Iterator[Node]:
    """Starts the cluster and waits until its node is ready. Its processes end with the block."""
    folder, programs, more = Path(os.environ[namespaces.FOLDER]), binaries.find(), binaries.node()
    cluster = Cluster(str(folder), PORT, ETCD, str(programs.kubectl), str(programs.helm), controllers=True)
    namespaces.prepare()
    _network()
    _write_files(cluster, more)
    node = Node(cluster, _commands(programs, more, cluster))
    try:
        for name in ("containerd", "etcd", "kube-apiserver", "dnsmasq"):
            node.start(name)
        with ThreadPoolExecutor(1) as beside:
            imported = beside.submit(_import_images, more["ctr"])
            until("the API server to be ready", cluster.ready, node.logs)
            for name in ("kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet"):
                node.start(name)
            until("the node to be ready", node.ready, node.logs)
            # The kubelet counts them as allocatable when it reports the next time, seconds later.
            cluster.patch(f"/api/v1/nodes/{NODE}/status", {"status": {"capacity": {GPU: "64"}}})
            imported.result()
        yield node
    finally:
        for process in node.processes.values():
            kill(process)


def _network() -> None:
    for command in (
        "ip link set lo up",
        f"ip link add {BRIDGE} type bridge",
        f"ip address add {GATEWAY}/24 dev {BRIDGE}",
        f"ip link set {BRIDGE} up",
        f"ip route add {SERVICES} dev {BRIDGE}",  # a Service's address needs a route before iptables rewrites it
        "sysctl -q -w net.ipv4.ip_forward=1",
    ):
        subprocess.run(command.split(), check=True)


def _import_images(ctr: Path) -> None:
    until("containerd to listen", Path(SOCKET).exists)
    layout = Path(os.environ[namespaces.IMAGES])
    images = [str(ctr), "-a", SOCKET, "-n", "k8s.io", "images"]
    with subprocess.Popen(["tar", "-C", layout, "-cf", "-", "."], stdout=subprocess.PIPE) as archive:
        _done([*images, "import", "-"], archive.stdout)


def _done(command: Sequence[str], stdin: IO[bytes] | int | None = subprocess.DEVNULL) -> None:
    done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"$ {' '.join(command)}\n{done.stderr}")


def _write_files(cluster: Cluster, more: Mapping[str, Path]) -> None:
    root = cluster.root
    certs.write(root, [HOST, GATEWAY, "10.96.0.1", "localhost", "kubernetes.default.svc"])
    service_account_keys(root)
    (root / "tokens.csv").write_text(f'{ADMIN},{ADMIN},1,"system:masters"\n{CONTROLLERS},{CONTROLLERS},2\n')
    (root / "containerd.toml").write_text(
        _CONTAINERD.format(
            root=root, socket=SOCKET, shim=more["containerd-shim-runc-v2"], pause=image.PAUSE,
            plugins=namespaces.PLUGINS,
        )
    )  # fmt: skip
    (root / "hosts").mkdir()
    (root / "audit.yaml").write_text(yaml.safe_dump(_AUDIT))
    (root / "cni").mkdir()
    (root / "cni" / "10-podfit.conflist").write_text(json.dumps(_CNI))
    (root / "kubelet.yaml").write_text(yaml.safe_dump(_KUBELET))
    (root / "resolv.conf").write_text("")


def _commands(
    programs: binaries.Programs, more: Mapping[str, Path], cluster: Cluster
) -> dict[str, Sequence[str | Path]]:
    root, admin = cluster.root, cluster.kubeconfig()
    assert programs.controllers
    return {
        "containerd": (more["containerd"], "--config", root / "containerd.toml"),
        "dnsmasq": (
            "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--pid-file", "--user=root", "--no-resolv",
            "--no-hosts", f"--hostsdir={root / 'hosts'}", f"--local=/{DOMAIN}/", f"--listen-address={GATEWAY}",
            "--bind-interfaces",
        ),
        "etcd": (
            programs.etcd, f"--data-dir={root / 'etcd'}", "--unsafe-no-fsync",
            f"--listen-client-urls={ETCD}", f"--advertise-client-urls={ETCD}",
        ),
        "kube-apiserver": (
            programs.apiserver, f"--etcd-servers={ETCD}", "--bind-address=0.0.0.0", f"--secure-port={PORT}",
            f"--advertise-address={GATEWAY}", f"--service-cluster-ip-range={SERVICES}", f"--cert-dir={root}",
            f"--tls-cert-file={root / 'tls.crt'}", f"--tls-private-key-file={root / 'tls.key'}",
            "--authorization-mode=RBAC", f"--token-auth-file={root / 'tokens.csv'}", "--allow-privileged",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={root / 'sa.pub'}", f"--service-account-signing-key-file={root / 'sa.key'}",
            f"--audit-policy-file={root / 'audit.yaml'}", f"--audit-log-path={root / 'audit.jsonl'}",
            "--profiling=false", "--kubelet-preferred-address-types=InternalIP",
        ),
        "kube-controller-manager": (
            programs.controllers, f"--kubeconfig={cluster.kubeconfig(user=CONTROLLERS)}", "--leader-elect=false",
            "--use-service-account-credentials", f"--service-account-private-key-file={root / 'sa.key'}",
            f"--root-ca-file={root / 'ca.crt'}", f"--cluster-cidr={PODS}",
        ),
        "kube-scheduler": (more["kube-scheduler"], f"--kubeconfig={admin}", "--leader-elect=false"),
        # A Pod that calls another one through a Service is answered past iptables by the bridge, unless masqueraded.
        "kube-proxy": (
            more["kube-proxy"], f"--kubeconfig={admin}", f"--hostname-override={NODE}", "--proxy-mode=iptables",
            f"--cluster-cidr={PODS}", "--masquerade-all", "--conntrack-max-per-core=0",
        ),
        "kubelet": (
            more["kubelet"], f"--config={root / 'kubelet.yaml'}", f"--kubeconfig={admin}", f"--node-ip={GATEWAY}",
            f"--hostname-override={NODE}", f"--root-dir={root / 'kubelet'}", f"--cert-dir={root / 'kubelet-certs'}",
        ),
    }  # fmt: skip


_CONTAINERD = """\
version = 3
root = "{root}/containerd"
state = "/run/containerd"
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{root}/opt"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
  # Without CAP_SYS_RESOURCE a container's score can't be below its parent's.
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    runtime_path = "{shim}"
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{plugins}"]
    conf_dir = "{root}/cni"
"""

_AUDIT: Mapping[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods"]}]},
        {"level": "None"},
    ],
}

_CNI: Mapping[str, Any] = {
    "cniVersion": "0.4.0",
    "name": "podfit",
    "plugins": [
        {
            "type": "bridge",
            "bridge": BRIDGE,
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.244.0.0/24", "gateway": GATEWAY}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
    ],
}

_KUBELET: Mapping[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "containerRuntimeEndpoint": f"unix://{SOCKET}",
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "cgroupDriver": "cgroupfs",
    "failCgroupV1": False,
    # Limits of containers are enforced, those of whole Pods are not: this node's own cgroup has no other tenants.
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "failSwapOn": False,
    "localStorageCapacityIsolation": False,
    "evictionHard": {
        "memory.available": "0%",
        "nodefs.available": "0%",
        "nodefs.inodesFree": "0%",
        "imagefs.available": "0%",
    },
    "imageGCHighThresholdPercent": 100,
    "resolvConf": "",
    "clusterDNS": [GATEWAY],
    "clusterDomain": DOMAIN,
    "syncFrequency": "5s",
    "volumePluginDir": "/run/kubelet-plugins",
}
