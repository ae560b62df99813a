"""Success rates of tasks as draws from one law, and what that says of pass@k beyond the samples that were drawn.

    p_i ~ pi_0 delta_0 + pi_1 delta_1 + (1 - pi_0 - pi_1) Beta(a, b),    c_i | p_i ~ Binomial(n_i, p_i)

counts = compress(num_samples, num_correct)
fitted = fit(0, counts)
assert fitted.diagnostics.is_converged
population_pass_at_k(fitted.hyperparameters, 1000)

Beyond n such a number rests on the law's form, and data cannot show that the form holds: docs/bayesian_coverage.md says where it fails.
NumPyro is imported by `posterior` alone.
"""
