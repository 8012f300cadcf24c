"""The 80 classes of COCO, in the order in which detectors trained on it number them."""

from __future__ import annotations

from typing import Final

__all__ = ["BOX_CLASSES", "COCO_CLASSES", "FACE"]

# fmt: off
COCO_CLASSES: Final[tuple[str, ...]] = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant",
    "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard",
    "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli",
    "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch", "potted plant", "bed", "dining table", "toilet",
    "tv", "laptop", "mouse", "remote", "keyboard", "cell phone", "microwave", "oven", "toaster", "sink",
    "refrigerator", "book", "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush",
)
# fmt: on

FACE: Final = len(COCO_CLASSES)
"""Number of faces, which no detector of COCO knows, in boxes."""
BOX_CLASSES: Final = (*COCO_CLASSES, "face")
"""Names of all classes of boxes, in the order of their numbers."""
