"""Frames of a video by position and by time, exactly, and hyperframes to look into.

The clip ships with the package: an excerpt of Big Buck Bunny, (c) Blender Foundation, CC BY 3.0.
"""

from importlib.resources import files

import hyperframes as hf

clip = files("hyperframes") / "data" / "big_buck_bunny.mp4"

with hf.open(clip) as video:
    few = video[100:103]  # exact, whatever the distance to the key frame
    print([int(index) for index in few.index], few.planes[0].shape)

    shown = video.at(seconds=[0.5, 2.0])  # what is on screen then
    print([int(index) for index in shown.index])

    for hyperframe in video.hyperframes(size=60, halo=2):
        header = hyperframe.header
        print(f"owns {header.core}, reads {header.read}, stands in {header.pad_before} + {header.pad_after}")
