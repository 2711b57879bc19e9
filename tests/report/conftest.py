"""The command, called in this process."""

from tests.cli.conftest import here, scaffold, script

__all__ = ["here", "scaffold", "script"]
