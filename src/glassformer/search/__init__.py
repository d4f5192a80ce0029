"""From a step function to sequences. Nothing here knows what a model is."""
