"""Rollout allocation: where to spend the next rollouts."""
