"""The machines of actions: conditions, gathering, templates, sharing of subscriptions, states that survive. Pure."""
