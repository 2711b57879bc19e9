"""``scaffold check``: faults of distributed training scripts, found without running them.

The reading is Python's own :mod:`ast`, not LibCST: nothing is rewritten, and a thousand files must take seconds.

``files``     which files to read, and which of them run together
``code``      one file: imports, scopes, parents
``program``   the files that run together, with the functions that call each other
``values``    what each name holds: a rank, a wrapper, a loader, a sampler
``places``    who runs a line: all ranks, or rank 0 alone
``loops``     training and evaluation loops
``flow``      where a value came from, and where it goes
``checks``    one kind of fault a file
"""
