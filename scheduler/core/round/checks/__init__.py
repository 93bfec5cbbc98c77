"""Parts of step 7, check."""
