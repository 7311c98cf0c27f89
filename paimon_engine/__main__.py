"""`python -m paimon_engine` is the command line."""

from paimon_engine.cli import main

if __name__ == "__main__":
    main()
