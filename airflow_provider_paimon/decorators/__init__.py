"""Decorators for tasks, as `@task.<name>`."""
