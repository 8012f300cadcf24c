"""What a stretch of video means: when something matters, where, what it looks like, and for which task."""

from hyperframes.semantic.advice import Advice, Symptoms
from hyperframes.semantic.advising import advise
from hyperframes.semantic.anchors import Anchors
from hyperframes.semantic.arrow import check_path, load, save, schema, to_table
from hyperframes.semantic.bridge import Classifier, ImageEncoder, LabelBridge
from hyperframes.semantic.cache import open_cache
from hyperframes.semantic.describing import DegradedWarning, Descriptions, describe
from hyperframes.semantic.descriptor import DEFAULT, PARTS, Anchor, Descriptor, Trajectory
from hyperframes.semantic.generator import NetworkGenerator, RidgeGenerator, TaskGenerator
from hyperframes.semantic.kernels import FIXED_KERNELS, attend
from hyperframes.semantic.look import Looks
from hyperframes.semantic.patchwise import Patchwise, Regions
from hyperframes.semantic.regions import Mask, Patches, select_patches
from hyperframes.semantic.sync import Lag, Sync, measure_sync
from hyperframes.semantic.task_folder import TaskFolder
from hyperframes.semantic.tasks import TASKS, Projection, Tasks, ZeroShotWarning
from hyperframes.semantic.text import MiniLm, TextEncoder
from hyperframes.semantic.timeline import Segment, Timeline, choose_frames, find_anchors
from hyperframes.semantic.trajectories import trajectories_between

__all__ = [
    "DEFAULT",
    "FIXED_KERNELS",
    "PARTS",
    "TASKS",
    "Advice",
    "Anchor",
    "Anchors",
    "Classifier",
    "DegradedWarning",
    "Descriptions",
    "Descriptor",
    "ImageEncoder",
    "LabelBridge",
    "Lag",
    "Looks",
    "Mask",
    "MiniLm",
    "NetworkGenerator",
    "Patches",
    "Patchwise",
    "Projection",
    "Regions",
    "RidgeGenerator",
    "Segment",
    "Symptoms",
    "Sync",
    "TaskFolder",
    "TaskGenerator",
    "Tasks",
    "TextEncoder",
    "Timeline",
    "Trajectory",
    "ZeroShotWarning",
    "advise",
    "attend",
    "check_path",
    "choose_frames",
    "describe",
    "find_anchors",
    "load",
    "measure_sync",
    "open_cache",
    "save",
    "schema",
    "select_patches",
    "to_table",
    "trajectories_between",
]
