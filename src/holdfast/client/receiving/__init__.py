"""Receiving: slices come in under credit, events go to the program, verdicts go back."""
