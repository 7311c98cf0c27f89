"""Triggers that wait in Airflow's triggerer."""
