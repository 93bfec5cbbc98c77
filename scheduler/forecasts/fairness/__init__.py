"""How virtual clusters are divided among tenants, and whom sharing costs something."""
