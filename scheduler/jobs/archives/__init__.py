"""Archives of working folders: uploaded, kept within bounds, handed to nodes and members."""
