"""The language models on this machine, and which of them form a pair of draft and target.

``find_models`` lists them, and ``drafts_for`` returns the drafts that fit a target. Only small
files and the headers of weights are read; neither weights nor torch are loaded.
"""
