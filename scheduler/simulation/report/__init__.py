"""The report of a simulation: numbers (`measure`), figures, one HTML page, JSON, a table for the terminal.

`write.write_report` makes all of it; nothing here is loaded by the server.
"""
