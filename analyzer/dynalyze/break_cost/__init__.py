"""What graph breaks and guards cost each call: measured, shown, and told as an impact of findings."""
