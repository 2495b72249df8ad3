"""The link: how a client reaches its server, and what each part of a session needs: questions, an outbox, waiters."""
