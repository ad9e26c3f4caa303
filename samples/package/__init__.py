"""A package with relative imports.

Try, in the folder samples:

    dynalyze explain -m package
    dynalyze explain package.model:build --backend eager
"""
