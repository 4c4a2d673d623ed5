"""Rules about what must fit into a GPU's memory."""
