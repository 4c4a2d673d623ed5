"""`podfit lsp`: what `check`, `fix` and `explain` compute, in an editor, over the Language Server Protocol.

Thin: `document` reads a text as `podfit check FILE` would, `features` maps what was found to the protocol, and `server`
listens. No rule, message or formula is here.
"""
