"""`manage.py up`: the whole platform on one machine, in the foreground (decision 0006).

It runs before Django's settings can be loaded, for it writes the file they are read from; so nothing
here imports Django except `commands_server`, which is a process of its own.
"""
