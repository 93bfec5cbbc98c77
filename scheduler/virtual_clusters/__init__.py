"""Virtual clusters: members, guarantees, policies."""
