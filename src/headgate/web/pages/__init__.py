"""The page: what people see of a store. It reads through the app's operations and changes through the API."""
