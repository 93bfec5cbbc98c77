"""Why attempts fail, and whether another one is worth while."""
