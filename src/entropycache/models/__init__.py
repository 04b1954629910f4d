"""Model families, their transformer, and the checkpoints they load from."""
