"""Runs the example DAGs in an Airflow of its own, on the data of `flights`, and reports what they did.

1. `airflow_process` starts and ends the Airflow, below `.airflow`.
2. `follow` watches the runs over Airflow's REST API.
3. `report` prints what the tasks returned and what the table holds, below `.demo`.
"""
