"""Monthly gauge check: compare observers' staff-gauge readings with telemetry.

Procedure GC-04, owner: Field operations (Siobhan Keane). Run on the second of each month, after
the observers have telephoned their readings on the first:

    python gauge_check.py readings-2025-09.csv

The CSV has one line per station: code, staff reading in metres, telemetry in metres at the same
minute, e.g. ``CA01,1.243,1.236``. Readings taken during a warning of Level 2 or above are left out,
because waves make the board hard to read.

What to do with the verdicts
    ok           nothing; the difference is at most 15 mm.
    recheck      more than 15 mm: ask the observer for a second reading within three days.
    quarantine   more than 40 mm: mark the station in Gaugebook, tell the duty forecaster on 4777,
                 and send a crew within two working days. Until the crew has been there, the
                 station is shown in grey and triggers no automatic alarm.

A station that is told to recheck three months in a row is treated as quarantined.
"""

import csv
import sys
from dataclasses import dataclass
from pathlib import Path

RECHECK_MM = 15.0
QUARANTINE_MM = 40.0
MONTHS_UNTIL_QUARANTINE = 3


@dataclass(frozen=True)
class Reading:
    """One observer's reading beside the telemetry of the same minute, both in metres."""

    station: str
    staff_m: float
    telemetry_m: float

    @property
    def difference_mm(self) -> float:
        """Telemetry minus staff gauge; positive when the sensor reads too high."""
        return round((self.telemetry_m - self.staff_m) * 1000.0, 1)


def verdict(reading: Reading, earlier_rechecks: int = 0) -> str:
    """Return ``ok``, ``recheck`` or ``quarantine`` for one reading."""
    deviation = abs(reading.difference_mm)
    if deviation > QUARANTINE_MM:
        return "quarantine"
    if deviation <= RECHECK_MM:
        return "ok"
    if earlier_rechecks + 1 >= MONTHS_UNTIL_QUARANTINE:
        return "quarantine"
    return "recheck"


def read_csv(path: Path) -> list[Reading]:
    """Read the observers' file; blank lines and lines starting with # are skipped."""
    readings = []
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.reader(lines):
            if not row or row[0].startswith("#"):
                continue
            station, staff, telemetry = row
            readings.append(Reading(station.strip().upper(), float(staff), float(telemetry)))
    return readings


def main() -> int:
    """Print one line per station, worst first; exit with 1 if any is quarantined."""
    readings = read_csv(Path(sys.argv[1]))
    readings.sort(key=lambda reading: -abs(reading.difference_mm))
    for reading in readings:
        print(f"{reading.station}  {reading.difference_mm:+7.1f} mm  {verdict(reading)}")
    return int(any(verdict(reading) == "quarantine" for reading in readings))


if __name__ == "__main__":
    sys.exit(main())
