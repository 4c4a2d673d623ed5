"""From the reviewed tables of `facts/` to `webhook/podfit/data`: see facts/README.md."""
