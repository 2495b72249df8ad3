"""The kinds of actions: notify, webhook, log, send and run; count and those of others come by entry points."""
