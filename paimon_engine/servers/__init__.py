"""Servers that hear about a table while the engine works on it, such as Iceberg's catalogs, and clients of servers.

Catalogs of Paimon, which know many tables, are in `metastores`, and use the clients that are here.
"""
