"""Types and reserved words of the languages and tools that bindings and apps are written for."""

from __future__ import annotations

import keyword

_FIXED = {"int8_t": 1, "int16_t": 2, "int32_t": 4, "int64_t": 8}
#: Bytes of the types that callers see.
WIDTH = {"float": 4, "double": 8, **_FIXED, **{f"u{name}": size for name, size in _FIXED.items()}}
RUST = {"float": "f32", "double": "f64"} | {c: f"{c[0]}{8 * WIDTH[c]}" for c in WIDTH if c.endswith("_t")}
_BUFFERS = {1: "ByteBuffer", 2: "ShortBuffer", 4: "IntBuffer", 8: "LongBuffer"}
#: Java has no unsigned numbers; the bits are the same.
JAVA = {c: _BUFFERS[size] for c, size in WIDTH.items()} | {"float": "FloatBuffer", "double": "DoubleBuffer"}

JAVASCRIPT = {c: f"{'Ui' if c[0] == 'u' else 'I'}nt{8 * WIDTH[c]}Array" for c in WIDTH if c.endswith("_t")}
JAVASCRIPT |= {f"{u}int64_t": f"Big{big}64Array" for u, big in (("", "Int"), ("u", "Uint"))}
JAVASCRIPT |= {"float": "Float32Array", "double": "Float64Array"}

_RUST_WORDS = """
as box break const continue crate dyn else enum extern false final fn for if impl in let loop macro match mod move mut
override priv pub ref return self static struct super trait true type unsafe use where yield
"""
_JAVA_WORDS = """
abstract assert boolean break byte catch char class default do extends final finally float handle implements import
instanceof int interface long native new package private protected public short status strictfp super synchronized this
throw throws transient try void volatile while
"""
_CPP_WORDS = "EOF NULL edgec i386 linux std stderr stdin stdout unix"  # most of them macros
#: Components of ESP-IDF, in whose place one of the same name would be built.
_IDF_WORDS = """
app_trace app_update bootloader bt cmock console cxx driver efuse esp32 esp_timer espcoredump fatfs freertos hal heap
ieee802154 json linux log lwip main mbedtls mqtt newlib nvs_flash openthread partition_table perfmon protocomm pthread
riscv sdmmc soc spi_flash spiffs tcp_transport ulp unity usb vfs wear_levelling wpa_supplicant xtensa
"""
#: Targets of Zephyr's own build.
_ZEPHYR_WORDS = "app drivers isr_tables kernel linker menuconfig offsets run syscall_list zephyr"
#: Words that cannot be names, by binding or app.
WORDS = {"cpp": frozenset(_CPP_WORDS.split()), "python": frozenset(keyword.kwlist)}
WORDS |= {"rust": frozenset(_RUST_WORDS.split()), "java": frozenset(_JAVA_WORDS.split())}
WORDS |= {"esp-idf": frozenset(_IDF_WORDS.split()), "zephyr": frozenset(_ZEPHYR_WORDS.split())}
