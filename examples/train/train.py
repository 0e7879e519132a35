"""Fit a line through the origin to the stopping distances of cars, by gradient descent."""

import csv
import json
import sys
from pathlib import Path

rate, steps = float(sys.argv[1]), int(sys.argv[2])
with Path("data/cars.csv").open(encoding="utf-8") as file:
    cars = [(float(row["speed"]), float(row["distance"])) for row in csv.DictReader(file)]

slope = 0.0
for _ in range(steps):
    slope -= rate * sum((slope * speed - distance) * speed for speed, distance in cars) / len(cars)

print(f"after {steps} steps: distance = {slope:.2f} * speed")
Path("model.json").write_text(json.dumps({"slope": slope}) + "\n", encoding="utf-8")
