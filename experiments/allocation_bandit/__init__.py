"""Allocation rules on populations of prompts whose success rates are known: all at one ledger, where the truth is computable."""
