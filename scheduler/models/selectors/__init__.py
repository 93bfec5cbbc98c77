"""What a viewer may see of the tables, a module for each."""
