"""What a worker does beside running jobs: one small class each, with one `run_once()`."""
