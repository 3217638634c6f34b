"""How the embedded pair was made: tokenizer, target, then a draft distilled from it.

Run as ``python -m specviz.training --corpus FOLDER --out FOLDER``. Every step of the
training draws its batch from (seed, step), so a run that is killed and started again
walks the same path as one that was not.
"""
