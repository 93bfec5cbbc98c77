"""The market between virtual clusters: offers, loans, rules, credits."""
