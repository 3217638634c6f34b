"""Train the embedded pair: tokenizer, target, then a draft distilled from the target.

Run as ``python -m specviz.training --corpus FOLDER --out FOLDER``. Each training step draws its
batch with a generator seeded by (seed, step). So a resumed run sees the same batches as an
uninterrupted one.
"""
