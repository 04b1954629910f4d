"""Analyses of the method on a model: entropy against drift, drift by age, and calibration."""
