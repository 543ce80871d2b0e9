"""`python -m edgec`: the command line."""

from edgec.cli.main import main

if __name__ == "__main__":
    main()
