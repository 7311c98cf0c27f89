"""Apache Paimon tables in Airflow: operators, hooks, a sensor and a trigger."""

__version__ = "0.1.0"
