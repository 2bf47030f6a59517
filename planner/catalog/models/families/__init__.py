"""One module per family of architectures."""
