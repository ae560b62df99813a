"""Small transformers trained from scratch on tasks with computed verdicts: the parts of `rolloutlab pretrain`."""
