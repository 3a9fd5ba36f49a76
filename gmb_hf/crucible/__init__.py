"""Crucible: does the model still rank its hardest known cases right?"""
