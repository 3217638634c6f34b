"""Learn: a lesson in steps, a game of guesses, and challenges, all checked by real runs.

Texts are data, one file a step, in ``assets/learn``: a translation is a folder beside ``en``.
"""
