"""One worker at work: its exchanges, its lease, the attempts that it runs."""
