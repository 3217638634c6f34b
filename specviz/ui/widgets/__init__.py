"""Widgets shared by several pages: controls, headings, charts, the player, untrusted text."""
