"""What a run is: its trace, settings, pairs, prompts, rules and step costs. Values only."""
