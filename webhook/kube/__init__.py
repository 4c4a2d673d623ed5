"""Kubernetes objects: what they say, how they refer to each other, and how they change. Pure.

Here: places in an object (`path`), quantities, patches, label selectors, the snapshot of a cluster's objects,
companions (Service, autoscaler, claims) of a workload, limits of namespaces; `manifest` reads text, `workload` finds
Pod templates. Not here: anything about vLLM, and requests to an API server (`cluster`). Imports `base`.

Companions are objects of the same file or, if no two of them would overwrite each other, of the same directory.
Objects of the whole cluster (nodes, namespaces, classes) count in the whole input (`everywhere`). An object that is
absent is unknown, not missing: a rule about an absence reports it only if something that addresses or scales the
workload is in the input (`Companions.holds_release`), or if the whole cluster is (`podfit scan`).
"""
