"""The kernels and estimators of `theory` against the truth of small models, one module a family."""
