"""The dashboard: page config and navigation, nothing else."""

from specviz.ui.shell import open_shell

open_shell()
