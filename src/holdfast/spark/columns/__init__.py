"""Events as columns: slices of batches, as a server gives them, become Arrow record batches, as Spark takes them."""
