"""Borders: one small file for each foreign format; every conversion proves itself."""
