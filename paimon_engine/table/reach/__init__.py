"""What is there, and what do snapshots, tags and branches still need of it?"""
