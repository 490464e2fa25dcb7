"""The workloads, once for each system. Each runner is a process of its own: see `bench.child`."""
