"""The HTTP API: one file per group of operations."""
