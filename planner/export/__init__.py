"""Kubernetes objects from a deployment plan; the only YAML emitter."""
