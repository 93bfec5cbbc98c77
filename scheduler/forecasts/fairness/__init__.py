"""How virtual clusters are divided among tenants, and which tenants lose by sharing."""
