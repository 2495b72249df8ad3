"""The rebuild: a server that lost its state, lags or is new becomes equal to the others, from a snapshot and the history."""
