"""Who may do what: rules, capabilities, budgets, and the one gate that applies them."""
