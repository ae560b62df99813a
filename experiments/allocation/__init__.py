"""Allocation rules on prompts whose success rates are known: populations, worlds, the simulator and the tables of `allocation-bandit`."""
