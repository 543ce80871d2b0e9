"""Networks divided over several workers: latency, throughput, bytes, memory and error beside one process."""
