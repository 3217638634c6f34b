"""Train the embedded pair: tokenizer, target, then a draft distilled from the target.

Run as ``python -m specviz.training --corpus FOLDER --out FOLDER``. Each training step draws its
batch from (seed, step), so a resumed run sees the same batches as an uninterrupted one.
"""
