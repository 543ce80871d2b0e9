"""The zoo: networks that nobody tuned for, each made, built, compared and timed in processes of its own."""
