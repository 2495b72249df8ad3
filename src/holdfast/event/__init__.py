"""Events: the words that everything else uses."""
