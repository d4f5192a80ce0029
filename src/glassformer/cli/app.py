"""`glass`: finds the command, and turns errors into one clear message and an exit code."""

from __future__ import annotations

import io
import keyword
import os
import sys

from cyclopts import App

from glassformer import __version__
from glassformer.cli.launch import VERDICT, end
from glassformer.errors import GlassformerError

app = App(
    name="glass",
    version=__version__,
    help="The Transformer, whole and in plain sight: train it on your text pairs, see through it, serve it.",
    suppress_keyboard_interrupt=False,  # main() has a word to say then
)

# Commands are named here and loaded when they are called, so that `glass --help` imports no torch.
COMMANDS = {
    "demo": "Train a small model here and now, and translate with it.",
    "train": "Train a model on text pairs, plain text or labels.",
    "translate": "Translate a text, a file, or standard input line by line.",
    "generate": "Go on with a text, with a language model.",
    "classify": "Give a label to a text or an image.",
    "tag": "Give a label to every word of a text.",
    "fill": "Guess what belongs in the blanks of a text, with a masked language model.",
    "serve": "Serve models: a page to translate on, and LibreTranslate's API.",
    "look": "Write a page that shows how a sentence is translated.",
    "explain": "Walk through the model, one equation at a time.",
    "heads": "Say what each attention head does, and which one aligns best.",
    "plot": "Draw the figures of the tutorials, and your own.",
    "check": "Find the classic mistakes in your own attention, positions, masks or model.",
    "compare": "Train the Transformer beside what it replaced, or without each of its parts.",
    "evaluate": "Score translations, with intervals, and test one system against another.",
    "data": "Fetch named corpora; count, measure and clean text files.",
    "import": "Read a model of another program: Hugging Face Marian.",
    "export": "Write a model for other programs: Hugging Face, CTranslate2, Argos.",
    "config": "Print every setting of a recipe with its meaning.",
}
for command, summary in COMMANDS.items():
    module = f"{command}_" if keyword.iskeyword(command) else command
    app.command(f"glassformer.cli.{module}:{module}", name=command, help=summary)


def main() -> None:
    """Run the command line; never show a traceback for an error that we understand."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # whatever the locale says: text is UTF-8 on every way out
    try:
        app()
        sys.stdout.flush()
    except GlassformerError as error:
        end(f"glass: {error}", error.exit_code)
    except KeyboardInterrupt:
        if VERDICT not in os.environ:  # else the one that has started this process says it
            print("glass: stopped by you", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader (head, less) has gone: that is not an error. Keep Python from writing to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
