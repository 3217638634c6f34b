"""The language models on this machine, and which of them form a pair.

``find_models`` lists them, and ``drafts_for`` says which drafts fit a target. Only small files and
the headers of weights are opened; nothing is loaded, and no torch.
"""
