"""Exact toy language models: finite tables of contexts and a hidden Markov model."""
