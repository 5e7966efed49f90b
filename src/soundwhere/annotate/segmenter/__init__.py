"""Segmenters: a picture is embedded once and prompted often."""
