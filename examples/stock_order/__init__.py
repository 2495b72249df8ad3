"""The stock order: two trading servers execute each order, and the exchange sees one."""
