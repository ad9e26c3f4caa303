"""A package with relative imports. From the folder `samples`:

dynalyze explain -m package
dynalyze explain package.model:build --backend eager
"""
