"""The tab "Under load" of Servers: a load sweep's controls, its wall view and its results."""
