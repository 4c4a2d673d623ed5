"""Code that commands share (input files, formats, the user's cluster), and parts of the larger commands.

The commands themselves are the modules next to this package.
"""
