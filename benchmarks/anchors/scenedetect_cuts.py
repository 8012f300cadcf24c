"""Cuts as PySceneDetect finds them: runs in its own environment, prints one JSON value for each detector and path.

python scenedetect_cuts.py content,adaptive FILE...
"""

import json
import resource
import sys
import time

import scenedetect

DETECTORS = {
    "content": (scenedetect.ContentDetector,),
    "adaptive": (scenedetect.AdaptiveDetector,),
    "content+threshold": (scenedetect.ContentDetector, scenedetect.ThresholdDetector),
    "histogram": (scenedetect.HistogramDetector,),
}
"""With their defaults; threshold is its detector of fades."""


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def detect(name, path):
    began, used = time.perf_counter(), cpu()
    video = scenedetect.open_video(path)
    manager = scenedetect.SceneManager()
    for detector in DETECTORS[name]:
        manager.add_detector(detector())
    manager.detect_scenes(video)
    cuts = [int(start.frame_num) for start, _ in manager.get_scene_list()][1:]
    seconds, spent = time.perf_counter() - began, cpu() - used
    return {"detector": name, "path": path, "cuts": cuts, "seconds": seconds, "cpu_seconds": spent}


if __name__ == "__main__":
    names, *paths = sys.argv[1:]
    for path in paths:
        for name in names.split(","):
            sys.stdout.write(json.dumps({"version": scenedetect.__version__, **detect(name, path)}) + "\n")
