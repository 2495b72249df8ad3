"""Access: the users, what each may do, and how long a failed login takes. Pure."""
