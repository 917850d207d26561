"""Makes tasks of a user's own kernels: reads a Triton file by its syntax tree, drafts the task,
says what is unsound about one, turns a histogram of shapes into cases. Runs none of it."""
