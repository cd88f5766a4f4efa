"""What other programs make of pages: pyclipper and NumPy of labels, text-det-metric of found outlines.

    reference.py labels CASES OUT    # CASES: [{"size": [width, height], "truths": [{"polygon", "ignored"}]}]
    reference.py counts CASES        # CASES: [{"truths": [...], "found": [polygon, ...]}]

Labels are four maps a case, float32, one behind the other: shrunk, its mask, threshold, its mask. Coordinates are those of
the corners of pixels.
"""

import json
import sys

import numpy as np
import pyclipper
from text_det_metric import TextDetMetric

RATIO, SMALLEST, LOW, HIGH = 0.4, 8, 0.3, 0.7
# pyclipper has whole numbers.
FINE = 1024


def offset(polygon, by):
    clipper = pyclipper.PyclipperOffset(2, 0.25 * FINE / 16)
    fine = [[round(x * FINE), round(y * FINE)] for x, y in polygon]
    clipper.AddPath(fine, pyclipper.JT_ROUND, pyclipper.ET_CLOSEDPOLYGON)
    return [np.array(path) / FINE for path in clipper.Execute(by * FINE)]


def window(size, polygon):
    """Where a polygon can be on a page, as an index, and the centres of the pixels there."""
    low, high = np.floor(polygon.min(0)), np.ceil(polygon.max(0))
    (left, top), (right, bottom) = np.clip([low, high], 0, size).astype(int)
    x, y = np.meshgrid(np.arange(left, right) + 0.5, np.arange(top, bottom) + 0.5)
    return np.s_[top:bottom, left:right], x, y


def filled(x, y, polygon):
    """Pixels whose centres are inside: a ray to the left crosses an odd number of sides."""
    inside = np.zeros(x.shape, bool)
    for (ax, ay), (bx, by) in zip(polygon, np.roll(polygon, -1, 0)):
        if ay != by:
            inside ^= ((ay <= y) != (by <= y)) & (ax + (y - ay) / (by - ay) * (bx - ax) < x)
    return inside


def distances(x, y, polygon):
    """The distance of each pixel's centre to the nearest side."""
    least = np.full(x.shape, np.inf)
    for (ax, ay), (bx, by) in zip(polygon, np.roll(polygon, -1, 0)):
        dx, dy = bx - ax, by - ay
        at = np.clip(((x - ax) * dx + (y - ay) * dy) / max(dx * dx + dy * dy, 1e-9), 0, 1)
        least = np.minimum(least, np.hypot(x - ax - at * dx, y - ay - at * dy))
    return least


def labels(size, truths):
    shape = size[::-1]
    shrunk, mask = np.zeros(shape), np.ones(shape)
    threshold, near = np.zeros(shape), np.zeros(shape)
    for truth in truths:
        polygon = np.array(truth["polygon"], float)
        area = pyclipper.Area((polygon * FINE).tolist()) / FINE**2
        length = np.hypot(*(polygon - np.roll(polygon, -1, 0)).T).sum()
        by = abs(area) * (1 - RATIO**2) / length
        inner = [] if truth["ignored"] or np.ptp(polygon, 0).min() < SMALLEST else offset(polygon, -by)
        if not inner:
            where, x, y = window(size, polygon)
            mask[where][filled(x, y, polygon)] = 0
            continue
        for path in inner:
            where, x, y = window(size, path)
            shrunk[where][filled(x, y, path)] = 1
        for path in offset(polygon, by):
            where, x, y = window(size, path)
            inside = filled(x, y, path)
            near[where][inside] = 1
            slope = inside * np.clip(1 - distances(x, y, polygon) / by, 0, 1)
            threshold[where] = np.maximum(threshold[where], slope)
    return np.stack([shrunk, mask, LOW + (HIGH - LOW) * threshold, near]).astype(np.float32)


def counts(case):
    """Truths, found, matched; each truth takes the first outline that is left: the metric has all pairs."""
    truths = [{"points": t["polygon"], "ignore": t["ignored"]} for t in case["truths"]]
    found = TextDetMetric().evaluate_image(truths, [{"points": polygon} for polygon in case["found"]])
    taken = {}
    for pair in found["pairs"]:
        if pair["gt"] not in taken and pair["det"] not in taken.values():
            taken[pair["gt"]] = pair["det"]
    return [found["gtCare"], found["detCare"], len(taken)]


def main(what, cases, *out):
    with open(cases) as file:
        cases = json.load(file)
    if what == "counts":
        print(json.dumps([counts(case) for case in cases]))
        return
    with open(out[0], "wb") as file:
        for case in cases:
            labels(case["size"], case["truths"]).tofile(file)


main(*sys.argv[1:])
