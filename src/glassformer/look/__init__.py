"""See through the model: traces, the inspection page, the walk, the head finder, figures."""
