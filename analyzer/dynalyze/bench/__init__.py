"""Plans measurements, runs them in processes of their own, and works out what may be said of them."""
