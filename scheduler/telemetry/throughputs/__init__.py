"""How fast job classes are on each GPU model: measured, corrected, handed out."""
