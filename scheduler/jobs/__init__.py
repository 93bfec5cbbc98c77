"""Jobs: checking, submitting, viewing and changing them."""
