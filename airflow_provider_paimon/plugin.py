"""What Airflow finds by the entry point `airflow.plugins`: classes that it finds by name to read stored DAGs."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_paimon.timetables import DailyTimetable


class PaimonPlugin(AirflowPlugin):
    """Registers the timetable of `timetables.daily`."""

    name = "paimon"
    timetables = [DailyTimetable]  # noqa: RUF012 - as Airflow wants it
