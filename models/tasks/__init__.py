"""Verifiable tasks: prompts, completions to train on, and verdicts that are computed and never learned."""
