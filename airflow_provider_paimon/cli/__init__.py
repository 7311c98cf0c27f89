"""`airflow paimon`: what administrators ask and set up."""
