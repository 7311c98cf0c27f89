"""Rewriting the files of buckets: merging, clustering, rescaling, indexing."""
