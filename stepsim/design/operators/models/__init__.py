"""Models as operator graphs: decoder blocks by name, and models of users' files."""
