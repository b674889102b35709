"""Text: files in, token batches out."""
