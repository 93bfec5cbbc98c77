"""What people and other systems are told of: mail, webhooks, the audit log's receivers."""
