"""Headgate: a background job queue whose core is admission."""

__version__ = "0.1.0"
