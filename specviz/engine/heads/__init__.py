"""Drafting heads: small models, such as EAGLE, that read the target's hidden states."""
