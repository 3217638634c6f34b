"""The chapters of the documentation, readable inside the dashboard without a network."""
