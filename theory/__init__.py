"""The mathematics of rollout sampling: exact laws, kernels, estimators. Imports nothing else of ours."""
