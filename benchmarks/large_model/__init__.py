"""A model of several gigabytes with external data: imported, built and checked within a bound of memory."""
