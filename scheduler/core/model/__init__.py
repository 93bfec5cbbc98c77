"""What all else speaks of: the facts of an instant, the plan, lifecycles, errors, words, stored forms."""
