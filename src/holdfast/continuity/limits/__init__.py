"""The limits of a domain: a server that lags too far is removed, and the history is given up before it is too long."""
