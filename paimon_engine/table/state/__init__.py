"""A table's metadata: handle, schemas, snapshots, manifests."""
