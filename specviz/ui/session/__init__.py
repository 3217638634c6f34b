"""What a browser session shares: the worker, its runs, the parts that are drawn again."""
