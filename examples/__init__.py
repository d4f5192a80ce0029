"""Small programs that the guide explains, each run by `python -m examples.NAME`."""
