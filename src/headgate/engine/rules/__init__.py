"""The rules, decided without a store. Read `admission` first, then `transitions`, `in_force`, `lifecycle`."""
