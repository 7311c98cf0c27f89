"""What Iceberg's metadata says, as values: schemas, bounds of columns, records of manifests, and the metadata file."""
