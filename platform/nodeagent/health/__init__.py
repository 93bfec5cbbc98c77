"""Whether the node is fit to run jobs: checks of its devices, folders and clock, and a script of its own."""
