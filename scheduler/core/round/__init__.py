"""One round: facts in, plan and reasons out. `decide` runs a single round, `engine` consecutive ones."""
