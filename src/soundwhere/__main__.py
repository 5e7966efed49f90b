"""`python -m soundwhere`, as torchrun starts it."""

from soundwhere.cli.main import main

if __name__ == "__main__":
    main()
