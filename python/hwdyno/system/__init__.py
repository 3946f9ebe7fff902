"""Files, signals, processes, foreign text and the store of Runs; imports the words of ``model`` alone."""
