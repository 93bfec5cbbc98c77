"""What people ask of jobs, from their submission on."""
