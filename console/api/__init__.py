"""The browser console: application, security, routes, live events."""
