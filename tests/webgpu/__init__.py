"""GPUs: what runs on the CPU runs there with the same results."""
