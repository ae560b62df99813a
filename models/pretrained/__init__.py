"""Model folders: published weights in Hugging Face format, and our own.

`load.load_folder` turns a folder into a configuration, parameters, the tokens that end a text and, where there is one, a
tokenizer. docs/pretrained.md says which architectures, and to how many digits they agree with `transformers`.
"""
