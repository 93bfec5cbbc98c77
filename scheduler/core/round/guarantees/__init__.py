"""The guarantees of virtual clusters, by cells and by counts, on the present hardware."""
