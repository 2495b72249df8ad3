"""Login: whose a link is, and what that user may do."""
