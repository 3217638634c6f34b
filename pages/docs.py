"""Docs: the chapters of the documentation."""

from specviz.ui.docs.chapters import show_chapters
from specviz.ui.shell import require_shell

require_shell()

show_chapters()
