"""Joint transactions: over several message managers, prepared at each, decided at the first, finished by any client manager."""
