"""Which files exist, and which of them do snapshots, tags and branches still need?"""
