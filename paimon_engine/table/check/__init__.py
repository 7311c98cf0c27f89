"""Is a stored table complete and valid?"""
