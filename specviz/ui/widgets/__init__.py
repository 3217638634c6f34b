"""Parts that several pages draw: controls, headings, charts, the player, foreign text."""
