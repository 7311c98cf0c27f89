"""`airflow paimon`: checks and setup for administrators."""
