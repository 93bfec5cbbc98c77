"""Why attempts fail, and whether another attempt is worthwhile."""
