"""Side-by-side measurements against peers. Each script prints its table and, with --require, fails below a ratio."""
