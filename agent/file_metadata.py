"""Gives a file that is to replace another one what belongs to that besides its content: owner, attributes, ACL, mode."""

import errno
import os
import stat
import sys

_KEPT_BY_THE_SYSTEM = ("security.", "trusted.")


def copy_metadata(original: int, new: int, status: os.stat_result) -> bool:
    """False if something that matters could not be given. `status` is of `original`."""
    created = os.fstat(new)
    try:
        if (status.st_uid, status.st_gid) != (created.st_uid, created.st_gid):
            os.fchown(new, status.st_uid, status.st_gid)
        _copy_attributes(original, new)
        os.fchmod(new, stat.S_IMODE(status.st_mode))
    except OSError:
        return False
    return True


if sys.platform == "darwin":

    def _copy_attributes(original: int, new: int) -> None:
        import ctypes

        acl_and_xattr = 0b101  # COPYFILE_ACL | COPYFILE_XATTR; not verified on macOS
        if ctypes.CDLL(None, use_errno=True).fcopyfile(original, new, None, acl_and_xattr) != 0:
            raise OSError(ctypes.get_errno(), "fcopyfile")

else:

    def _copy_attributes(original: int, new: int) -> None:
        try:
            names = os.listxattr(original)
            inherited = os.listxattr(new)
        except OSError as error:
            if error.errno in (errno.ENOTSUP, errno.ENOSYS):
                return
            raise
        for name in inherited:
            if name not in names and not name.startswith(_KEPT_BY_THE_SYSTEM):
                os.removexattr(new, name)
        for name in names:
            try:
                os.setxattr(new, name, os.getxattr(original, name))
            except OSError:
                if not name.startswith(_KEPT_BY_THE_SYSTEM):
                    raise
