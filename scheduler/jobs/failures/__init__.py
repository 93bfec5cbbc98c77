"""The site's rules about failures."""
