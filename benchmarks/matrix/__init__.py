"""The matrix: networks of the zoo, each built with drawn options for a drawn device, and judged."""
