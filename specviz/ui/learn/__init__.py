"""Learn: a lesson in steps, a guessing game, and challenges, all checked by real runs.

Texts are data in ``assets/learn``, one file per step; a translation is a folder beside ``en``.
"""
