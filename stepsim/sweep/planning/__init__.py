"""From a specification to the chunks of runs."""
