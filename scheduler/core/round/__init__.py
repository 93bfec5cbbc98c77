"""One round: facts in, plan and reasons out. `decide` is the whole, `engine` the same for rounds in a row."""
