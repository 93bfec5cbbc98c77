"""What the endpoints of all slices share."""
