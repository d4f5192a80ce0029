"""The architectures side by side: what the Transformer replaced, and what each of its parts is worth."""
