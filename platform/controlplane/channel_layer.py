"""The way to pages and agents: Channels' layer over Redis, for code that is not asynchronous too."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import redis
from channels_redis.pubsub import RedisPubSubChannelLayer

from controlplane.by_identity import ByIdentity

_TIMEOUT_SECONDS = 2.0


class ChannelLayer(RedisPubSubChannelLayer):  # type: ignore[misc]  # channels has no types
    """The pub/sub layer: no queues in Redis to grow or to expire, and a message may be lost.

    Its own `group_send` waits for Redis message by message, and in a process without an event loop opens a
    connection for each call. Rounds wake a thousand agents at once.
    """

    def __init__(self, *, url: str, prefix: str) -> None:
        super().__init__(hosts=[url], prefix=prefix)
        self._group = f"{prefix}__group__{{}}".format
        self._redis = redis.Redis.from_url(
            url, socket_timeout=_TIMEOUT_SECONDS, socket_connect_timeout=_TIMEOUT_SECONDS
        )
        self._read: ByIdentity[bytes, dict[str, Any]] = ByIdentity(super().deserialize)

    def deserialize(self, message: bytes) -> dict[str, Any]:
        """Return what a message means: one object for all its receivers, which must not change it.

        All receivers of a process have the same bytes. Five hundred pages would each decode them.
        """
        return self._read.of(message)

    def send_all(self, messages: Iterable[tuple[Collection[str], Mapping[str, Any]]]) -> None:
        """Send each message to its groups, all in one exchange with Redis."""
        pipeline = self._redis.pipeline(transaction=False)
        for groups, message in messages:
            packed = self.serialize(message)
            for group in groups:
                pipeline.publish(self._group(group), packed)
        pipeline.execute()

    def is_heard(self, group: str) -> bool:
        """Whether anything is in the group now, in whatever process."""
        [(_, listeners)] = self._redis.pubsub_numsub(self._group(group))
        return bool(listeners)
