"""One module per question, and the command line."""
