"""Rules about resources, nodes and tolerations: whether a Pod is placed."""
