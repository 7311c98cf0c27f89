"""What a table's metadata means: schemas, snapshots, manifests, statistics. Pure functions on values."""
