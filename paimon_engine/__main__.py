"""`python -m paimon_engine` is the command line, and so is the program `paimon-engine`."""

import sys

_INTERRUPTED = 130
"""Exit code of a command that a person has stopped, as shells have it."""


def main() -> None:
    """Runs the command line, which is loaded here, so that Ctrl-C ends it without a trace from the beginning on."""
    try:
        from paimon_engine.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
