"""Checks a guess of somebody's against the data. The guess is wrong, and so this fails."""

from train import measurements

SLOPE, INTERCEPT, TOLERANCE = 3.0, 0.0, 20.0


def main() -> None:
    found = measurements()
    missed = [1 for speed, distance in found if abs(SLOPE * speed + INTERCEPT - distance) > TOLERANCE]
    if missed:
        raise ValueError(f"the guess misses {len(missed)} of {len(found)} measurements")


if __name__ == "__main__":
    main()
