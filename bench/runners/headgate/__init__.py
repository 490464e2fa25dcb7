"""Headgate, by its public surface alone."""
