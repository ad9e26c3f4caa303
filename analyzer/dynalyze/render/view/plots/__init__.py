"""Drawings of measurements: geometry and texts, worked out here so that the template only writes them down."""
