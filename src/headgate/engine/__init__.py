"""Engines: where jobs live. `contract` says what each one does; `rules` decides, without a store."""
