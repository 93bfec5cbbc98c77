"""From jobs to auctions and back: what is on offer, what apps bid for it, and how leases are made real."""
