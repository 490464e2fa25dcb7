"""An error of the user's module, with the frames that are the user's."""

from __future__ import annotations

import os
import traceback

import headgate

OWN = os.path.dirname(os.path.abspath(headgate.__file__)) + os.sep
IMPORTLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep + "importlib" + os.sep


def user_frames(error: BaseException) -> str:
    """Where it was raised, without what Headgate and the import machinery do around it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _foreign(frame.filename)]
    return "".join([*traceback.format_list(frames), *traceback.format_exception_only(error)]).rstrip()


def _foreign(filename: str) -> bool:
    return filename.startswith(("<frozen importlib", OWN, IMPORTLIB))
