"""The pages as data: dataclasses built from what is shown, ready for templates that only loop over them."""
