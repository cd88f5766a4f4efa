"""A text detector of tune's beside RapidOCR's, on photographs whose texts are known (docs/detection.md).

    benches/photographs.py TUNE MODEL PHOTOGRAPHS.json [SHEET.jpg]

MODEL is a directory that `tune export` has written. PHOTOGRAPHS.json is in the manner of MMOCR, with its pictures beside
it. Both detectors are scored by text-det-metric, the protocol of ICDAR 2015. SHEET.jpg gets the photographs with what
both have found. Needs the packages rapidocr-onnxruntime and text-det-metric.
"""

import json
import pathlib
import subprocess
import sys

import cv2
import numpy as np
from rapidocr_onnxruntime import RapidOCR
from text_det_metric import TextDetMetric

# Blue, green, red.
COLOURS = {"truth": (255, 255, 255), "tune": (60, 200, 60), "RapidOCR": (40, 60, 240)}
WIDTH = 480


def photographs(file):
    """Pictures with their texts, as text-det-metric wants them."""
    for page in json.loads(file.read_text())["data_list"]:
        texts = [
            {"points": np.reshape(text["polygon"], (-1, 2)).tolist(), "ignore": bool(text["ignore"])}
            for text in page["instances"]
        ]
        yield file.parent / pathlib.Path(page["img_path"]).name, texts


def found_by_tune(program, model, directory):
    lines = subprocess.run([program, "predict", model, directory, "-q"], check=True, capture_output=True, text=True)
    pages = (json.loads(line) for line in lines.stdout.splitlines())
    return {page["picture"]: [text["polygon"] for text in page["texts"]] for page in pages}


def found_by_rapidocr(pictures):
    detector = RapidOCR()
    found = {}
    for picture in pictures:
        boxes, _ = detector(str(picture), use_det=True, use_cls=False, use_rec=False)
        found[picture.name] = [] if boxes is None else np.array(boxes, float).tolist()
    return found


def score(truths, found):
    """Precision, recall and h-mean of all pages."""
    pages = [TextDetMetric().evaluate_image(truths[name], [{"points": box} for box in found[name]]) for name in truths]
    texts, boxes, matched = (sum(page[key] for page in pages) for key in ("gtCare", "detCare", "detMatched"))
    return matched / max(boxes, 1), matched / max(texts, 1), 2 * matched / max(texts + boxes, 1), texts, boxes, matched


def sheet(pictures, truths, found, path):
    tiles = []
    for picture in pictures:
        image = cv2.imread(str(picture))
        scale = WIDTH / image.shape[1]
        image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        known = [text["points"] for text in truths[picture.name] if not text["ignore"]]
        for who, boxes in [("truth", known)] + [(who, each[picture.name]) for who, each in found.items()]:
            outlines = [np.round(np.array(box) * scale).astype(np.int32) for box in boxes]
            cv2.polylines(image, outlines, True, COLOURS[who], 1 if who == "truth" else 2, cv2.LINE_AA)
        tiles.append(image)
    rows = [np.hstack(tiles[at : at + 2]) for at in range(0, len(tiles) - 1, 2)]
    cv2.imwrite(str(path), np.vstack(rows), [cv2.IMWRITE_JPEG_QUALITY, 75])


def main(program, model, file, out=None):
    file = pathlib.Path(file)
    pages = dict(photographs(file))
    pictures, truths = sorted(pages), {picture.name: texts for picture, texts in pages.items()}
    found = {"tune": found_by_tune(program, model, file.parent), "RapidOCR": found_by_rapidocr(pictures)}
    print(f"{'':10} precision  recall  h-mean  of texts, outlines, matched")
    for who, boxes in found.items():
        precision, recall, hmean, *counts = score(truths, boxes)
        print(f"{who:10} {precision:9.3f} {recall:7.3f} {hmean:7.3f}  {', '.join(map(str, counts))}")
    if out:
        sheet(pictures, truths, found, out)


main(*sys.argv[1:])
