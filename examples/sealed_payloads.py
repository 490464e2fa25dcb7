"""Payloads that the store cannot read: AES-GCM, bound to the job they belong to, with keys that change.

    pip install headgate cryptography
    python examples/sealed_payloads.py

Arguments, results and progress are encrypted before they are stored. What is encrypted for one job cannot be passed off
as another's: task, job and tenant are associated data. A new key is put in front of the old ones; what was stored
under an old key stays readable until that is taken away.
"""

import asyncio
import os
from collections.abc import Mapping

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headgate import App, PayloadContext, PayloadError

NONCE = 12


class Sealed:
    """A codec. `keys` are 32 bytes each, by a name of one byte or more without a colon; the first one encrypts."""

    accept_plain = False  # True while jobs from before the codec are still in the store

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self.current = next(iter(keys))
        self.ciphers = {name: AESGCM(key) for name, key in keys.items()}

    def encode(self, data: bytes, context: PayloadContext) -> bytes:
        nonce = os.urandom(NONCE)
        sealed = self.ciphers[self.current].encrypt(nonce, data, bytes(context))
        return self.current.encode() + b":" + nonce + sealed

    def decode(self, data: bytes, context: PayloadContext) -> bytes:
        name, _, rest = data.partition(b":")
        cipher = self.ciphers.get(name.decode())
        if cipher is None:
            raise PayloadError(f"there is no key {name.decode()!r}")
        return cipher.decrypt(rest[:NONCE], rest[NONCE:], bytes(context))


def make_app(keys: Mapping[str, bytes]) -> App:
    app = App("memory://patients", codec=Sealed(keys))

    @app.task
    async def diagnose(patient: str) -> str:
        return f"{patient} is well"

    return app


async def main() -> None:
    old, new = AESGCM.generate_key(256), AESGCM.generate_key(256)
    before = make_app({"2025": old})
    job = await before.tasks["diagnose"].enqueue("Ada")
    await before.run_until_idle()

    rotated = make_app({"2026": new, "2025": old})
    print("with both keys:", await rotated.handle(job.id).result())

    too_early = make_app({"2026": new})
    try:
        await too_early.handle(job.id).result()
    except PayloadError as error:
        print("without the old one:", error)

    onlooker = App("memory://patients")
    print("without a codec:", (await onlooker.handle(job.id).info()).args)


if __name__ == "__main__":
    asyncio.run(main())
