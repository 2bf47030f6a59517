"""An API server in this process, for the demo cluster and for tests: enough of Kubernetes for kubectl and the client.

It keeps objects in memory and offers the kinds it is told about: a table of built-ins and any CustomResourceDefinition.
No webhooks, no garbage collector, no scheduler; behaviour follows what a Kubernetes 1.36 server was seen to answer.
"""
