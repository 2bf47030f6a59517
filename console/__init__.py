"""Live cluster state and the interactive interfaces of wideplan."""
