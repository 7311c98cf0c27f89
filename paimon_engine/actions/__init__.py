"""What the engine can do: one file per action, each with its spec, its function and its result."""
