"""Shell, styles and modules of the browser client, served as they are: no build step, no third-party code."""
