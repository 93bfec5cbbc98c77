"""The commands, one module for each group of them. Only typer is imported before a command runs."""
