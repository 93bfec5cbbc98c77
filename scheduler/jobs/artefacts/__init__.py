"""Files that jobs leave in their checkpoint folders: listed, and handed to users who may read
their output.
"""
