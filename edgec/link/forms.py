"""The notation of links."""

#: How links are written, with what stands behind the colon.
FORMS = "local, qemu[:PROCESSOR], board[:MACHINE], node, ssh:HOST[:PORT], adb[:SERIAL]"
