"""Load and check profiles, recipes and checkpoints' config.json files."""
