"""How fast kinds of jobs are on each GPU model: measured, corrected, handed out."""
