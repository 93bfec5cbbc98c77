"""What virtual clusters are guaranteed, by cells and by counts, on the hardware of the moment."""
