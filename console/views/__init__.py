"""View-models shared by the terminal app and the browser console: pure, frozen, tested without an interface."""
