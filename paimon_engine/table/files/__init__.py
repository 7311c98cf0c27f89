"""Files of a bucket, and what manifests say of them."""
