"""Learn: a lesson in steps, a guessing game, and challenges, all checked by real runs.

The texts are in ``assets/learn/en``, one file per step. A translation is a folder next to ``en``.
"""
