"""The HTTP app that shows a run: ``/metrics``, ``/stats`` and ``/healthz``, on a thread of its own.

metrics  what a run tells, as counts and histograms, and as Prometheus text
app      the endpoints, and who may ask
server   address, thread, start and stop
"""

from hyperframes.console.app import make_app
from hyperframes.console.metrics import Metrics
from hyperframes.console.server import Console, parse_address

__all__ = ["Console", "Metrics", "make_app", "parse_address"]
