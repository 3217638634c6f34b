"""The tab "Under load" of Servers: controls of a load sweep, its live view and its results."""
