"""From bytes to tokens: lines, tokenizers, corpora."""
