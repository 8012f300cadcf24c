"""What PyAV code sources and sinks share. Imports PyAV only inside its modules."""

from hyperframes.media.passthrough import Passthrough

__all__ = ["Passthrough"]
