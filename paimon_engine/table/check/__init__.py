"""Is a stored table whole?"""
