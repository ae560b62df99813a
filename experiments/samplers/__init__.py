"""The samplers of `theory` as one family of functions, `(key, model, prompts, ids, settings) -> Rows`, under the names of the command line.

`catalogue.METHODS` lists them. A sampler reaches the model only through `SequenceModel`; the exact draws of `exact_draws`, which need a
table, are the one exception. What an id draws is the same whichever ids stand beside it.
"""
