"""Example DAGs, and `python -m dags_examples.demo`, which runs them in an Airflow of its own."""
