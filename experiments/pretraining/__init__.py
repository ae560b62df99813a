"""Small transformers trained from scratch on tasks with computed verdicts: the parts of `rolloutlab pretrain`."""

MODEL_FOLDER = "model"
"""Folder of the trained model in its run folder."""
