"""The Claims page: a card (bordered box) per claim, and runs that test the claims."""
