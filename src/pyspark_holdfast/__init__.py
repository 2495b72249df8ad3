"""Found by Spark by itself, for its name: the format "holdfast" where this package is installed."""

from holdfast.spark.format import HoldfastSource as DefaultSource

__all__ = ["DefaultSource"]
