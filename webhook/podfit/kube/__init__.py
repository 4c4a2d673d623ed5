"""Kubernetes objects: their fields, how they refer to each other, and how they change. Pure.

- `path`: places in an object
- quantities, patches, label selectors, limits of namespaces
- `snapshot`: the objects of a cluster
- companions of a workload (Service, autoscaler, claims)
- `manifest` reads text; `workload` finds Pod templates

This package has nothing about vLLM, and no requests to an API server (see `cluster`). It imports `base`.

Companions are objects of the same file or, if no two of them would overwrite each other, of the same directory.
Objects of the whole cluster (nodes, namespaces, classes) count in the whole input (`everywhere`). An absent object is
unknown, not missing. A rule about an absent object reports it in two cases only. Either the input has something that
addresses or scales the workload (`Companions.holds_release`), or it is the whole cluster (`podfit scan`).
"""
