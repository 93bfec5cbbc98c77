"""Files that jobs leave in their checkpoint folders: listed, and handed to who may read their output."""
