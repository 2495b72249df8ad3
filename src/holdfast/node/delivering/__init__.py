"""Delivering: waiting events go to the receivers that granted credit, or to the dead queue."""
