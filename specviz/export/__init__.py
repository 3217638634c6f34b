"""What leaves the project: tables, and recordings that play elsewhere."""
