"""One table: finding its snapshots and manifests, reading and writing its files, committing, deleting safely."""
