"""Storage: files at several places, written in one order, read from whoever is current, brought up to date by digest."""
