"""Groups that join and leave while serving: load curves, autoscaling policies, elastic EP."""
