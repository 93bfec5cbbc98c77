"""What is sent to people and other systems: mail, webhooks, the audit log's receivers."""
