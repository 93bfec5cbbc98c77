"""Batches made by other processes, on machines with processors to spare, and fetched over the network.

The trainer listens and gives out work (`trainer`), input workers connect and do it (`worker`, which
`python -m allot.training.input_workers MODULE:FUNCTION` starts). What goes over the line is in `line` and
`batch`; `dispatch` and `scaling` decide, as pure functions, which worker makes which batch and how many
workers there should be. After the tf.data service (A. Audibert et al., "tf.data service", SoCC 2023) and
Meta's Data PreProcessing Service (M. Zhao et al., "Understanding Data Storage and Ingestion", ISCA 2022).
docs/input-workers.md.
"""
