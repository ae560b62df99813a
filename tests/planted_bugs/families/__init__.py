"""The planted bugs with their exact damage, one module a family."""
