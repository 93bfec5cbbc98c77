"""Virtual clusters beside their private clusters, and advice on cells."""
