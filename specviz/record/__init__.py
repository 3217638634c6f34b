"""The record of a run: trace, settings, pairs, prompts, rules and step costs. Values only."""
