"""`python -m ku_rag` is `ku`."""

from ku_rag.cli import main

if __name__ == "__main__":
    main()
