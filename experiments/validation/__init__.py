"""Every kernel and estimator of `theory` against the truth of small models, one module a family."""
