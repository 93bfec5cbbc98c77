"""Gandiva_fair: `policy` decides, by tickets, a stride over users and trades of GPU models."""
