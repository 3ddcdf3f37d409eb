"""python -m r3_lite: the same as the r3-lite command."""

from r3_lite.cli import main

if __name__ == "__main__":
    main()
