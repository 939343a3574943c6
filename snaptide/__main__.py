"""`python -m snaptide` is `snaptide`."""

from snaptide.cli import app

if __name__ == "__main__":
    app(prog_name="snaptide")
