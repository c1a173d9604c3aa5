"""Models as operator graphs: decoder blocks by name, and what users' files make."""
