"""Ways into running attempts."""
