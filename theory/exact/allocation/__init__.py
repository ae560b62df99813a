"""Exact operating characteristics of allocation rules, and the optimum of each information class."""
