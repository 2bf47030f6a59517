"""The terminal app: textual screens over the view-models of `console.views`."""
