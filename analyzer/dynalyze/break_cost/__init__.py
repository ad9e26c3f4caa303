"""What graph breaks and guards cost per call: measured, shown, and added to findings as their impact."""
