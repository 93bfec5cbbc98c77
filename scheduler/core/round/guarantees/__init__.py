"""What virtual clusters are promised, by cells and by counts, on the hardware of the moment."""
