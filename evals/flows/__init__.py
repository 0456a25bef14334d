"""Ordinary office tasks and injections: how often do flow rules ask, and what gets past them?"""
