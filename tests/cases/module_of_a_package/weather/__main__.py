"""python -m weather"""

from .forecast import main

if __name__ == "__main__":
    main()
