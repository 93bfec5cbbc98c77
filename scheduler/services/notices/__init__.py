"""Who is told of what, by e-mail and to webhooks: from events to what was sent (decision 0019)."""
