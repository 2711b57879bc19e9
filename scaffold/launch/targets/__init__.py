"""One module a target: its docstring's first line says what it is; ``files``, ``start`` and ``check`` are its specification.

``files(job)`` gives the names to write and their templates, ``start(job, folder)`` the command, ``check(job)`` raises ``ScaffoldError`` for
what it cannot run and gives notes.
"""
