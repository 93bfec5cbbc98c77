"""What is known of how fast jobs run: by GPU model, size of the gang, how near its GPUs are, and its
partners.
"""
