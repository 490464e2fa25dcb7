"""Worker processes: the supervisor, its children, and what they are started with."""
