"""`headgate top`: the overview of a store in the terminal, live."""
