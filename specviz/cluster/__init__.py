"""Runs made on the devices of a Ray cluster. Of Ray, only this room knows.

It takes blocks of runs, as any maker of runs does, and knows nothing of plans: which runs there
are, what is done and what is kept is the runner's and the library's. Importing it imports no Ray.
"""
