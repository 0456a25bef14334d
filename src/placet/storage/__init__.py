"""Where durable things are kept: connections, transactions and migrations, and nothing of what they mean."""
