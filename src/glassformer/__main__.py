"""`python -m glassformer` is `glass`; torchrun needs it in this form."""

from glassformer.cli.app import main

if __name__ == "__main__":
    main()
