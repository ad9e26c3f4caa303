"""What travels between the driver of a sweep and the nodes of a cluster: typed records, packed to bytes."""

from __future__ import annotations

import msgspec

from dynalyze.fleet.items import Item
from dynalyze.fleet.work import Finished, RunSettings


class Parcel(msgspec.Struct):
    """An item for a node. `root` is the sweep's folder here, `shown_root` what results may call it.

    With `shipped` the node has that folder's files in the current folder of its Ray worker.
    """

    item: Item
    settings: RunSettings
    root: str = ""
    shown_root: str = ""
    shipped: bool = False


class Node(msgspec.Struct, frozen=True):
    """Where an item ran: the host's name, and its versions of the packages that decide a row, as one text."""

    host: str
    packages: str = ""

    def __str__(self) -> str:
        return f"{self.host} ({self.packages})" if self.packages else self.host


class Delivery(msgspec.Struct):
    """What came back. `unusable` says why nothing can run on that node; the item has not been touched then."""

    node: Node
    finished: Finished | None = None
    unusable: str = ""


def pack(content: Parcel | Delivery) -> bytes:
    """As bytes for another process or machine."""
    return msgspec.msgpack.encode(content)


def unpack_parcel(data: bytes) -> Parcel:
    """What `pack` made of a parcel."""
    return msgspec.msgpack.decode(data, type=Parcel)


def unpack_delivery(data: bytes) -> Delivery:
    """What `pack` made of a delivery."""
    return msgspec.msgpack.decode(data, type=Delivery)
