"""`python -m headgate` is `headgate`, for where scripts are not on the path."""

from headgate.cli.entry import main

if __name__ == "__main__":
    main()
