"""The command, called in this process."""

from tests.cli.conftest import here, scaffold

__all__ = ["here", "scaffold"]
