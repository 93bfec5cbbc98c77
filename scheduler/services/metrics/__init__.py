"""What nodes and jobs use: stored (`storing`), made coarser (`rolling`), read (`reading`, `idleness`)."""
