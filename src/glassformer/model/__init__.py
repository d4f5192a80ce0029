"""The Transformer: from token ids to the distribution of the next token."""
