"""Training: from a configuration and its text to a model directory, resumable to the bit at every checkpoint."""
