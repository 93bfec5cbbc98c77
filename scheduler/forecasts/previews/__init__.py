"""The next round decided ahead of time, and a past one decided again."""
