"""What a program talks to: the app, its tasks, handles and operations. `App` itself is in `app.py`."""
