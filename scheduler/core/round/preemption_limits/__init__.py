"""How far a policy may go in displacing those that run."""
