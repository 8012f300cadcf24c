"""The four parts of semantic features, pixel by pixel; imports nothing from the package."""

import math

import numpy as np


def cell_of(position, length):
    return min(63, int((position + 0.5) * 64 / length))


def linear(confidence, y, x, height, width):
    """The map (64, 64) at a pixel of an (height, width) picture: linear between cell centres, edges repeated."""
    v = min(max((y + 0.5) * 64 / height - 0.5, 0), 63)
    u = min(max((x + 0.5) * 64 / width - 0.5, 0), 63)
    y0, x0 = int(v), int(u)
    y1, x1 = min(63, y0 + 1), min(63, x0 + 1)
    top = confidence[y0, x0] * (1 - (u - x0)) + confidence[y0, x1] * (u - x0)
    low = confidence[y1, x0] * (1 - (u - x0)) + confidence[y1, x1] * (u - x0)
    return top * (1 - (v - y0)) + low * (v - y0)


def flow(field, confidence):
    part = [0.0] * 128
    height, width = field.shape[:2]
    for y in range(height):
        for x in range(width):
            dx, dy = (float(v) for v in field[y, x])
            speed = math.hypot(dx, dy)
            if speed < 0.125:
                continue
            degrees = math.degrees(math.atan2(dy, dx)) % 360
            direction = int((degrees + 22.5) // 45) % 8
            step = min(15, int(math.log(speed / 0.125) / math.log(math.sqrt(2)) + 1e-9))
            part[16 * direction + step] += float(linear(confidence, y, x, height, width))
    total = sum(part)
    return np.array(part) / total if total > 1e-3 else np.zeros(128)


def texture(luma, confidence, threshold):
    counts = np.zeros(128)
    height, width = luma.shape

    def at(y, x):
        y = -y if y < 0 else (2 * (height - 1) - y if y >= height else y)
        x = -x if x < 0 else (2 * (width - 1) - x if x >= width else x)
        return int(luma[min(max(y, 0), height - 1), min(max(x, 0), width - 1)])

    around = [(0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1)]
    above = [
        (y, x)
        for y in range(height)
        for x in range(width)
        if confidence[cell_of(y, height), cell_of(x, width)] > threshold
    ]
    for y, x in above or [(y, x) for y in range(height) for x in range(width)]:
        code = sum((at(y + dy, x + dx) >= at(y, x)) << k for k, (dy, dx) in enumerate(around))
        counts[min(code, 255 - code)] += 1
    return counts / counts.sum()


def detection(boxes, scores):
    part = [float(s) for s in scores] + [0.0] * 48
    for left, top, right, bottom, score, _ in boxes.astype(float):
        area = (right - left) * (bottom - top)
        size = 0 if area < 0.02 else 1 if area < 0.15 else 2
        row, column = min(3, int((top + bottom) * 2)), min(3, int((left + right) * 2))
        place = 80 + 16 * size + 4 * row + column
        part[place] = max(part[place], float(score))
    norm = math.sqrt(sum(v * v for v in part))
    return np.array(part) / max(1.0, norm)


def change(history):
    """(5, 384), the newest last."""
    part = []
    for g in range(32):
        for lag in range(4):
            new, old = (history[4 - k, 12 * g : 12 * g + 12].astype(float) for k in (lag, lag + 1))
            a, b = math.sqrt(float(new @ new)), math.sqrt(float(old @ old))
            if a == 0 and b == 0:
                part.append(0.0)
            elif a == 0 or b == 0:
                part.append(1.0)
            else:
                part.append(min(1.0, max(0.0, 1 - float(new @ old) / (a * b))))
    return np.array(part)
