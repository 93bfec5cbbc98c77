"""The ledger: what auctions, trades and loans decided."""
