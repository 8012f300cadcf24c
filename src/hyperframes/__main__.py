"""``python -m hyperframes``: the command line."""

from hyperframes.cli import main

if __name__ == "__main__":
    main()
