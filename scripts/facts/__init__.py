"""From the reviewed tables of `facts/` to `webhook/data`: see facts/README.md."""
