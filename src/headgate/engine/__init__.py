"""Engines: where jobs live. `contract` says what each one does; `admission` holds the rules."""
