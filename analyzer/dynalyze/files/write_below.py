"""A file that is written below one folder and nowhere else, whoever puts links in its way meanwhile."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from dynalyze.files.read_write import LARGEST
from dynalyze.text.errors import UsageError


def write_below(root: Path, path: Path, data: bytes, is_ours: Callable[[bytes], bool]) -> None:
    """Write `path`, which has no links in it, whole or not at all. Raises UsageError where a folder on the way is
    missing or a link by now, and where a file is there whose content is not ours.
    """
    folder, new, mode = os.open(root, os.O_DIRECTORY), f".dynalyze-{secrets.token_hex(8)}", 0o666

    def inside(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666, dir_fd=folder)

    try:
        for part in path.relative_to(root).parts[:-1]:
            above, folder = folder, inside(part, os.O_DIRECTORY)
            os.close(above)
        with contextlib.suppress(FileNotFoundError), open(path.name, "rb", opener=inside) as there:
            mode = os.fstat(there.fileno()).st_mode & 0o777
            if not is_ours(there.read(LARGEST)):
                raise UsageError(f"{path} is there, and dynalyze did not write it: name another file")
        with open(new, "xb", opener=inside) as file:
            file.write(data)
            if mode != 0o666:
                os.fchmod(file.fileno(), mode)
        os.replace(new, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=folder)
        os.close(folder)
