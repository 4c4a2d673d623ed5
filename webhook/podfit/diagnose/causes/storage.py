"""Causes in disks and volumes."""

from __future__ import annotations

from podfit.diagnose.cause import Cause, Signature

_IN_USE = (
    r"Multi-Attach error|already (?:exclusively )?attached to (?:one|another|a different|an? instance)|"
    r"[Vv]olume(?:InUse| is (?:already )?(?:in use|used))|"
    r"is already used by pod|is still being used|RESOURCE_IN_USE|is already being used by|"
    r"ReadWriteOncePod access mode|already in use by"
)

CAUSES = (
    Cause(
        "disk-full",
        "A disk is full",
        "The model, the compile cache or the image needs more room: a larger volume at the cache's path, or "
        "a higher ephemeral-storage limit.",
        (
            Signature(
                r"No space left on device|\[Errno 28\]|os error 28\b|[Dd]isk quota exceeded|\[Errno 122\]|ENOSPC",
                "errno 28, 122",
                unless=r"/dev/shm|psm_|shared_memory\.py|shm_broadcast|shm_open|_posixshmem|/torch_\d|shared memory",
            ),
            Signature(
                r"Not enough (?:free )?disk space|is over \d+% full, available space: ",
                "huggingface_hub file_download.py; Ray file_system_monitor.cc, of what fails soon after",
                weak=True,
                any_level=True,
            ),
            Signature(r"No space left on device|no space left on device", "containerd, CSI drivers", channel="event"),
            Signature(r"[Nn]o space left on device", "the runtime, in the kubelet's words", channel="status"),
        ),
        ("model-cache-too-small", "model-cache-missing"),
        meanings=(
            (
                r"Failed to pull image|failed to register layer|failed to extract layer",
                "The image does not fit on the node's disk: remove unused images, or use nodes with a larger disk.",
            ),
        ),
    ),
    Cause(
        "evicted-storage",
        "The Pod was evicted for the disk it used",
        "Needs a volume for the model cache, or an ephemeral-storage request and limit above what it writes.",
        (
            Signature(
                r"low on resource: (?:ephemeral-storage|inodes|nodefs|imagefs)|ephemeral local storage usage exceeds|"
                r"exceeded its local ephemeral storage limit|Usage of EmptyDir volume .* exceeds the limit|"
                r"DiskPressure",
                "kubelet pkg/kubelet/eviction/",
                channel="status",
            ),
            Signature(
                r"^Evict\w*: .*(?:low on resource: (?:ephemeral-storage|inodes|nodefs|imagefs)|"
                r"local ephemeral storage|ephemeral local storage|EmptyDir volume|DiskPressure)|"
                r"^EvictionThresholdMet: .*(?:ephemeral-storage|nodefs|imagefs)",
                "kubelet pkg/kubelet/eviction/",
                channel="event",
            ),
            Signature(
                r"low on resource: ephemeral-storage|ephemeral local storage usage exceeds|"
                r"exceeded its local ephemeral storage limit|[Ee]viction manager.*ephemeral-storage",
                "kubelet's own log, Events as others print them",
                weak=True,
                any_level=True,
            ),
        ),
        ("model-cache-missing", "model-cache-too-small"),
    ),
    Cause(
        "volume-in-use",
        "The volume is attached to another node",
        "A ReadWriteOnce volume serves one node: use ReadWriteMany, a volume for each replica, or strategy: Recreate.",
        (
            Signature(
                _IN_USE,
                "kube-controller-manager attachdetach; CSI drivers; kube-scheduler VolumeRestrictions",
                channel="event",
            ),
            Signature(_IN_USE, "kube-scheduler VolumeRestrictions", channel="status"),
            Signature(
                r"Multi-Attach error|ReadWriteOncePod access mode",
                "Events as others print them",
                weak=True,
                any_level=True,
            ),
        ),
        ("read-write-once-with-replicas",),
    ),
    Cause(
        "volume-not-mounted",
        "A volume can't be mounted",
        "The event names the volume: a claim that is not bound, a driver that is not there, a server that "
        "does not answer.",
        (
            Signature(
                r"^(?:FailedMount|FailedAttachVolume|ProvisioningFailed|FailedMapVolume): ",
                "kubelet, attach-detach controller, external-provisioner",
                channel="event",
            ),
        ),
    ),
    Cause(
        "cache-not-writable",
        "The container may not write where it must",
        "Make the path in the line writable for the container's user, or point the program elsewhere.",
        (
            Signature(
                r"PermissionError: \[Errno 13\]|\[Errno 30\] Read-only file system|"
                r"Read-only file system \(os error 30\)|Permission denied \(os error 13\)|"
                r"PermissionError at .* when downloading|[Rr]ead-only file system: '|"
                r"(?:mkdir|cannot create directory|cannot touch|open) .*(?:Permission denied|Read-only file system)",
                "errno 13, 30",
                unless=r"\.sock\b|bind|/dev/nvidia|/dev/kfd|/dev/dri|/dev/shm",
            ),
            Signature(
                r"problem when trying to write in your cache folder",
                "transformers utils/hub.py, a warning before it fails",
                weak=True,
                any_level=True,
            ),
        ),
        ("cache-read-only", "home-not-writable", "model-cache-wrong-path", "temporary-directory-missing"),
    ),
    Cause(
        "weights-corrupt",
        "A file of weights is broken",
        "Mostly half a download: delete it from the cache and let it come again. A file of about 130 bytes "
        "is a Git LFS pointer.",
        (
            Signature(
                r"SafetensorError\b|HeaderTooLarge|MetadataIncompleteBuffer|InvalidHeader(?:Deserialization|Length|"
                r"Start)|invalid load key, 'v'|PytorchStreamReader failed|unexpected EOF, expected \d+ more bytes",
                "safetensors; PyTorch torch/serialization.py",
            ),
        ),
    ),
)
