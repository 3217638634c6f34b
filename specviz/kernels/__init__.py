"""Machine code made on the user's machine: a whole step, and matrix products of few rows."""
