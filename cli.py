"""Runs `xlac` from a checkout: `python cli.py check specs/softmax.yaml`."""

from xlac.cli import main

if __name__ == "__main__":
    main()
