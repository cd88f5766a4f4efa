"""Writes deliveries.csv: made-up deliveries, for the task "tabular". Run it in configs/data; the seed decides all rows."""

import csv
import random

ROWS = 600
WEATHER = {"dry": (0.55, 0.0), "rain": (0.3, 7.0), "snow": (0.15, 16.0)}
VEHICLES = {"bicycle": 3.4, "scooter": 2.1, "van": 1.7}


def delivery(rng, customer):
    """One row: how long it took depends on all columns but the order's number."""
    weather = rng.choices(list(WEATHER), [share for share, _ in WEATHER.values()])[0]
    vehicle = rng.choice(list(VEHICLES))
    distance, weight = rng.lognormvariate(1.3, 0.5), rng.expovariate(1 / 4)
    hour = rng.randrange(8, 22)
    rating = min(5.0, max(1.0, rng.gauss(4.2, 0.6)))
    rush = 9.0 if hour in (12, 13, 18, 19) and vehicle == "van" else 0.0
    heavy = 1.5 * weight if vehicle == "bicycle" else 0.3 * weight
    minutes = 8 + VEHICLES[vehicle] * distance + heavy + rush + WEATHER[weather][1] - 2.5 * (rating - 4.2)
    minutes += rng.gauss(0, 2.5)
    known = rng.random() > 0.08
    return [
        f"c{customer}", weather, vehicle, f"{distance:.2f}", f"{weight:.1f}", hour,
        f"{rating:.1f}" if known else "", f"{minutes:.1f}", "yes" if minutes > 35 else "no",
    ]


def main():
    rng = random.Random(0)
    with open("deliveries.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["customer", "weather", "vehicle", "km", "kg", "hour", "rating", "minutes", "late"])
        for row in range(ROWS):
            out.writerow(delivery(rng, row // 3))


if __name__ == "__main__":
    main()
