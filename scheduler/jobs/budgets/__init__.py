"""Budgets of tenants."""
