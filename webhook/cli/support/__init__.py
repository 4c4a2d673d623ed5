"""What commands share (input files, formats, the user's cluster), and parts of the larger ones.

Here is no command: each module next to this package is one.
"""
